package conductor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"bessemer/agent/wire"
	"bessemer/store"
)

// maxAnswer bounds what an agent may answer: ramdisk logs are the largest.
const maxAnswer = 48 << 20

// agents keeps one HTTP client per node, so that polling an agent reuses its
// connection. A client lasts as long as the boot that its agent is of.
type agents struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	around func(http.RoundTripper) http.RoundTripper // nil: nothing is put around

	mu      sync.Mutex
	clients map[string]*agentClient
}

func newAgents() *agents {
	return &agents{clients: map[string]*agentClient{}, dial: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
}

// client returns the client of a node's agent.
func (a *agents) client(node string, to store.Agent, rec store.Recorder, limit time.Duration) (*agentClient, error) {
	if to.URL == "" || to.Token == "" {
		return nil, fmt.Errorf("%w: it has not called since the node was started", errAway)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.clients[node]
	if old != nil && old.url == to.URL && old.token == to.Token && old.ca == to.CA {
		return old, nil
	}
	c, err := a.newClient(to, rec, limit)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.http.CloseIdleConnections()
	}
	a.clients[node] = c
	return c, nil
}

// probe calls an agent on a connection of its own: an older one may be to a
// machine that has gone without a word.
func (a *agents) probe(ctx context.Context, to store.Agent, rec store.Recorder) error {
	c, err := a.newClient(to, rec, lookCall)
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	_, err = c.commands(withArrow(ctx, plainArrow(store.LabelCheckAgent)))
	return err
}

func (a *agents) forget(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.clients[node]; c != nil {
		c.http.CloseIdleConnections()
		delete(a.clients, node)
	}
}

func (a *agents) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, c := range a.clients {
		c.http.CloseIdleConnections()
		delete(a.clients, node)
	}
}

// An agentClient speaks Ironic-Python-Agent's command API to one agent.
type agentClient struct {
	url, token, ca string
	http           *http.Client
	limit          time.Duration
}

// newClient returns a client that trusts nothing but the certificate that the
// agent showed in its heartbeat, follows no redirects, uses no proxy, and
// records what it sends.
func (a *agents) newClient(to store.Agent, rec store.Recorder, limit time.Duration) (*agentClient, error) {
	transport := &http.Transport{
		DialContext:           a.dial,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: limit,
		MaxIdleConnsPerHost:   1,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true,
	}
	if to.CA != "" {
		pinned, err := parseCA(to.CA)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // replaced by VerifyConnection
			VerifyConnection: func(cs tls.ConnectionState) error {
				if err := verifyPinned(cs, pinned); err != nil {
					return &connError{refused, fmt.Errorf("another certificate than the agent's: %w", err)}
				}
				return nil
			},
		}
	}
	next := http.RoundTripper(transport)
	if a.around != nil {
		next = a.around(next)
	}
	return &agentClient{
		url: to.URL, token: to.Token, ca: to.CA, limit: limit,
		http: &http.Client{
			Transport: &recording{next: next, base: transport, rec: rec},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the agent redirects elsewhere, which no agent does")
			},
		},
	}, nil
}

// parseCA reads the certificates of a heartbeat.
func parseCA(text string) ([]*x509.Certificate, error) {
	certs, err := parsePEM([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read agent_verify_ca: %w", err)
	}
	return certs, nil
}

// verifyPinned accepts the pinned certificate itself, or one that it has
// signed for the host asked. Times are not looked at: a machine whose clock
// is hours off makes certificates that are not valid yet.
func verifyPinned(cs tls.ConnectionState, pinned []*x509.Certificate) error {
	leaf := cs.PeerCertificates[0]
	roots := x509.NewCertPool()
	for _, c := range pinned {
		if leaf.Equal(c) {
			return nil
		}
		roots.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: cs.ServerName, CurrentTime: leaf.NotBefore.Add(time.Second),
	})
	return err
}

// command sends a command. With wait, the agent answers when it has ended.
func (c *agentClient) command(ctx context.Context, name string, params map[string]any, wait bool) (*wire.Command, error) {
	if params == nil {
		params = map[string]any{}
	}
	body, err := json.Marshal(wire.CommandRequest{Name: name, Params: params})
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", name, err)
	}
	var cmd wire.Command
	if err := c.exchange(ctx, http.MethodPost, fmt.Sprintf("wait=%t", wait), body, &cmd); err != nil {
		return nil, fmt.Errorf("command %s: %w", name, err)
	}
	return &cmd, nil
}

// commands lists the commands of the agent's boot, oldest first.
func (c *agentClient) commands(ctx context.Context) ([]wire.Command, error) {
	var list wire.Commands
	if err := c.exchange(ctx, http.MethodGet, "", nil, &list); err != nil {
		return nil, fmt.Errorf("list commands: %w", err)
	}
	return list.Commands, nil
}

func (c *agentClient) exchange(ctx context.Context, method, query string, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	if query != "" {
		query += "&"
	}
	target := c.url + "/v1/commands/?" + query + "agent_token=" + url.QueryEscape(c.token)
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return errors.New("the agent's URL cannot be used") // err would show the token
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.unreachable(err)
	}
	if len(text) > maxAnswer {
		return final(fmt.Errorf("the agent at %s answers more than %d MiB", c.url, maxAnswer>>20))
	}
	if resp.StatusCode/100 != 2 {
		return c.refused(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return final(fmt.Errorf("the agent at %s answers what is not JSON: %w", c.url, err))
	}
	return nil
}

// unreachable says that there was no answer, without the URL that holds the
// token.
func (c *agentClient) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%w: %s: %w", errAway, c.url, ofConnection(err))
}

// refused makes an error of an HTTP status. A busy agent (409) is asked
// again.
func (c *agentClient) refused(status int, text []byte) error {
	var fault struct {
		Faultstring string `json:"faultstring"`
		Message     string `json:"message"`
	}
	_ = json.Unmarshal(text, &fault) // a body of another shape is shown as it is
	why := fault.Faultstring + fault.Message
	if why == "" {
		why = clip(string(text[:min(len(text), 300)]), 300)
	}
	err := fmt.Errorf("the agent at %s answers %d: %s", c.url, status, clip(why, 500))
	switch status {
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", errAway, err)
	case http.StatusUnauthorized: // it is the agent of another boot
		return fmt.Errorf("%w: %w", errAway, &connError{refused, err})
	}
	return final(err)
}
