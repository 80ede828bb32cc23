package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bessemer/agent/wire"
)

// Microversions that we speak at most, as Ironic-Python-Agent does: 1.62 hands
// out tokens, 1.68 knows agent_verify_ca.
const (
	lookupVersion    = 62
	heartbeatVersion = 68
)

// maxAnswer is the largest answer that is read from the server; a node with
// its config drive fits.
const maxAnswer = 32 << 20

// api is the server, as the agent's client sees it.
type api struct {
	base   string
	client *http.Client
}

// answer is what the server said.
type answer struct {
	code  int
	body  []byte
	max   int    // highest minor microversion; 0: not told
	local net.IP // our address on the connection
	date  time.Time
}

func newAPI(c Config) (*api, error) {
	u, err := url.Parse(c.APIURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server address %q is not an http or https URL; set ipa-api-url on the kernel's command line", c.APIURL)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure, RootCAs: c.Policy.Roots}
	return &api{
		base: strings.TrimRight(c.APIURL, "/"),
		client: &http.Client{
			Timeout: 30 * time.Second,
			Transport: &http.Transport{
				DialContext:           (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: c.Policy.LocalAddr()}).DialContext,
				TLSClientConfig:       t,
				TLSHandshakeTimeout:   10 * time.Second,
				ResponseHeaderTimeout: 30 * time.Second,
				IdleConnTimeout:       5 * time.Second, // heartbeats are rarer than that, or at once
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// call sends a request; any status is an answer, no error.
func (a *api) call(ctx context.Context, method, path string, minor int, body any) (answer, error) {
	var ans answer
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if t, ok := i.Conn.LocalAddr().(*net.TCPAddr); ok {
			ans.local = t.IP
		}
	}})
	r, err := newRequest(ctx, method, a.base+path, minor, body)
	if err != nil {
		return ans, err
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return ans, plain(err)
	}
	defer resp.Body.Close()
	ans.code = resp.StatusCode
	ans.max = minorOf(resp.Header.Get("X-OpenStack-Ironic-API-Maximum-Version"))
	ans.date, _ = http.ParseTime(resp.Header.Get("Date"))
	ans.body, err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswer))
	return ans, err
}

// plain takes the URL out of an error; who reads it knows the server.
func plain(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func newRequest(ctx context.Context, method, url string, minor int, body any) (*http.Request, error) {
	var b io.Reader
	if body != nil {
		j, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		b = bytes.NewReader(j)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, b)
	if err != nil {
		return nil, err
	}
	r.Header.Set(wire.VersionHeader, "1."+strconv.Itoa(minor))
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// minorOf is 82 for "1.82", 0 for anything else.
func minorOf(version string) int {
	s, ok := strings.CutPrefix(version, "1.")
	n, err := strconv.Atoi(s)
	if !ok || err != nil || n < 0 {
		return 0
	}
	return n
}

// explain takes the sentence out of an error answer of Ironic, which is JSON,
// often with JSON inside.
func explain(body []byte) string {
	var outer struct {
		Message json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal(body, &outer) != nil || len(outer.Message) == 0 {
		return short(string(body))
	}
	text := outer.Message
	var s string
	if json.Unmarshal(text, &s) == nil {
		text = []byte(s)
	}
	var inner struct {
		Fault string `json:"faultstring"`
	}
	if json.Unmarshal(text, &inner) == nil && inner.Fault != "" {
		return short(inner.Fault)
	}
	return short(string(text))
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return s
}
