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
)

// Microversion is the version of Ironic's API that the client asks for.
const Microversion = "1.82"

// A Client calls one appliance.
type Client struct {
	Base     string // http://127.0.0.1:6385
	User     string
	Password string
	Token    string // instead of User and Password
	// Denied is what a refusal for want of a login is explained with: where
	// the credentials were looked for, and how to give them.
	Denied string
	HTTP   *http.Client
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

// An Unreachable is a failure to get any answer.
type Unreachable struct {
	Base string
	Err  error
}

func (u *Unreachable) Error() string {
	return "no appliance answers at " + u.Base + ": " + u.Err.Error()
}
func (u *Unreachable) Unwrap() error { return u.Err }

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
		return nil, &Unreachable{c.Base, unwrapURL(err)}
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	e := refusal(resp.StatusCode, raw)
	if e.Status == http.StatusUnauthorized && c.Denied != "" {
		e.Hint = c.Denied
	}
	return nil, e
}

// unwrapURL takes the method and URL off an error that already names them.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
