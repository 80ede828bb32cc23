package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"bessemer/bmc"
	"bessemer/bmc/sim/flaw"
)

// A Client controls a rack of another process through its socket. Where a
// method takes a machine's name, "all" stands for every one.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client of the rack that listens on a socket.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Status returns how every machine stands.
func (c *Client) Status(ctx context.Context) (s []Status, err error) {
	return s, c.do(ctx, http.MethodGet, "/machines", change{}, &s)
}

// Add adds n machines, of one profile, or of the rack's when profile is "".
func (c *Client) Add(ctx context.Context, n int, profile string) (e []Enrollment, err error) {
	return e, c.do(ctx, http.MethodPost, "/machines", change{Count: n, Profile: profile}, &e)
}

// Down ends the rack.
func (c *Client) Down(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/down", change{}, nil)
}

// Journal returns what happened to a machine.
func (c *Client) Journal(ctx context.Context, name string) ([]Event, error) {
	var by map[string][]Event
	err := c.do(ctx, http.MethodGet, machinePath(name, "journal"), change{}, &by)
	return by[name], err
}

// Enrollments returns what an appliance needs to know, by machine.
func (c *Client) Enrollments(ctx context.Context, name string) (by map[string]Enrollment, err error) {
	return by, c.do(ctx, http.MethodGet, machinePath(name, "enrollment"), change{}, &by)
}

// Inject adds faults, and returns those that each machine has now.
func (c *Client) Inject(ctx context.Context, name string, faults ...flaw.Fault) (by map[string][]flaw.Fault, err error) {
	return by, c.do(ctx, http.MethodPost, machinePath(name, "inject"), change{Faults: faults}, &by)
}

// Heal ends the faults of the given kinds, or all when none is given.
func (c *Client) Heal(ctx context.Context, name string, kinds ...flaw.Kind) error {
	return c.do(ctx, http.MethodPost, machinePath(name, "heal"), change{Kinds: kinds}, nil)
}

// Turn turns quirks on and off, and returns those that each machine has now.
func (c *Client) Turn(ctx context.Context, name string, on, off []flaw.ID) (by map[string][]flaw.ID, err error) {
	return by, c.do(ctx, http.MethodPost, machinePath(name, "quirks"), change{On: on, Off: off}, &by)
}

// Power does a power action by hand, past the controller.
func (c *Client) Power(ctx context.Context, name string, a bmc.PowerAction) error {
	return c.do(ctx, http.MethodPost, machinePath(name, "power"), change{Power: a}, nil)
}

func machinePath(name, what string) string { return "/machines/" + url.PathEscape(name) + "/" + what }

// do sends a request and decodes the answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, body change, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("ask rack: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://rack"+path, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("ask rack: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask rack at %s: %w; is one running?", c.socket, unwrapURL(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var failed struct{ Error string }
		if err := json.NewDecoder(resp.Body).Decode(&failed); err != nil || failed.Error == "" {
			failed.Error = resp.Status
		}
		return fmt.Errorf("rack: %s", failed.Error)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read answer of rack: %w", err)
	}
	return nil
}

func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
