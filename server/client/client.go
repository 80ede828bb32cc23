// Package client speaks to a running appliance: Ironic's bare-metal API and
// our own beside it. The command line is built on it.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Microversion is the version of Ironic's API that the client asks for.
const Microversion = "1.82"

// A Client calls one appliance.
type Client struct {
	Base     string // http://127.0.0.1:6385
	User     string
	Password string
	Token    string // instead of User and Password
	HTTP     *http.Client
}

// New returns a client of the appliance at base. ca is a PEM certificate to
// trust beside the system's, or nil.
func New(base string, ca []byte) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the URL of an appliance, such as http://127.0.0.1:6385", base)
	}
	t := &http.Transport{Proxy: nil, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 8}
	if ca != nil {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, errors.New("no certificate in the CA file")
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return &Client{Base: strings.TrimRight(base, "/"), HTTP: &http.Client{Transport: t}}, nil
}

// An Error is a refusal by the appliance.
type Error struct {
	Status  int
	Message string
	Hint    string
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Message + " (" + e.Hint + ")"
	}
	return e.Message
}

// Get fetches path into out.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.Call(ctx, http.MethodGet, path, nil, out)
}

// Call sends in as JSON (nil for nothing) and decodes the answer into out
// (nil to ignore it).
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	resp, err := c.Do(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

// Do sends a request with any body; an answer of 400 or more is an *Error.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-OpenStack-Ironic-API-Version", Microversion)
	req.Header.Set("Accept", "application/json, */*")
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	switch {
	case c.Token != "":
		req.Header.Set("X-Auth-Token", c.Token)
	case c.User != "":
		req.SetBasicAuth(c.User, c.Password)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no appliance answers at %s: %w", c.Base, unwrapURL(err))
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return nil, refusal(resp.StatusCode, raw)
}

// unwrapURL takes the method and URL off an error that already names them.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// refusal reads Ironic's doubly encoded error, its plain forms, and ours.
func refusal(status int, raw []byte) *Error {
	e := &Error{Status: status, Message: strings.TrimSpace(string(raw))}
	var body struct {
		ErrorMessage json.RawMessage `json:"error_message"`
		Error        struct{ Message, Hint string }
	}
	if json.Unmarshal(raw, &body) != nil {
		if e.Message == "" {
			e.Message = http.StatusText(status)
		}
		return e
	}
	if body.Error.Message != "" {
		e.Message, e.Hint = body.Error.Message, body.Error.Hint
		return e
	}
	inner := []byte(body.ErrorMessage)
	var text string
	if json.Unmarshal(inner, &text) == nil {
		inner = []byte(text)
		e.Message = text
	}
	var fault struct{ Faultstring, Description, Message, Title string }
	if json.Unmarshal(inner, &fault) == nil {
		for _, s := range []string{fault.Faultstring, fault.Description, fault.Message, fault.Title} {
			if s != "" {
				e.Message = s
				break
			}
		}
	}
	return e
}

// WaitState polls a node until its provision state is at rest, calling seen
// with each new reading, and returns the last one. It ends with ctx.
func (c *Client) WaitState(ctx context.Context, node string, done func(n map[string]any) bool, seen func(n map[string]any)) (map[string]any, error) {
	for {
		var n map[string]any
		if err := c.Get(ctx, "/v1/nodes/"+url.PathEscape(node), &n); err != nil {
			return nil, err
		}
		if seen != nil {
			seen(n)
		}
		if done(n) {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}
