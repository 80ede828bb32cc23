package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"bessemer/server/auth"
)

// A call is one request on its way through a handler.
type call struct {
	api   *API
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	route *route

	id    auth.Identity
	v     version // of Ironic's API
	own   bool    // our own API: plain errors
	query url.Values
	body  []byte // read, within the limits, when the route takes JSON
	// suffix says that ".json" was cut off the path. Ironic does so below
	// 1.91, and then prefers a name that ends in it.
	suffix bool
}

func (c *call) path(name string) string { return c.r.PathValue(name) }

// json answers with a body.
func (c *call) json(status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		c.api.log.Error().Err(err).Str("request", c.requestID()).Msg("encode answer")
		status, raw = http.StatusInternalServerError, []byte(`{"error_message": "{}"}`)
	}
	c.raw(status, raw)
}

func (c *call) raw(status int, body []byte) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(body)
	}
}

// empty answers without a body.
func (c *call) empty(status int) error {
	c.w.WriteHeader(status)
	return nil
}

// accepted answers that work has begun, and where to watch it.
func (c *call) accepted(path string) error {
	c.w.Header().Set("Location", c.url("/v1"+path))
	return c.empty(http.StatusAccepted)
}

func (c *call) requestID() string { return c.w.Header().Get(requestIDHeader) }

// readBody reads the body up to limit bytes and checks that it is JSON of
// bearable depth. The client has limited time to send it.
func (c *call) readBody(limit int64) error {
	within := 30*time.Second + time.Duration(limit>>20)*time.Second
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(within))
	if c.r.ContentLength > limit {
		return tooLarge(limit)
	}
	raw, err := io.ReadAll(io.LimitReader(c.r.Body, limit+1))
	if err != nil {
		return refuse(http.StatusBadRequest, "The request's body could not be read to its end")
	}
	if int64(len(raw)) > limit {
		return tooLarge(limit)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil
	}
	if err := checkDepth(raw, maxDepth); err != nil {
		return err
	}
	if !json.Valid(raw) {
		return invalid("The request's body is not valid JSON")
	}
	c.body = raw
	return nil
}

func tooLarge(limit int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "The request's body is larger than the %d bytes allowed here", limit)
}

// drain reads what is left of a refused request's body, up to limit bytes and
// 2 s, so that the connection is not reset under the answer.
func (c *call) drain(limit int64) {
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.CopyN(io.Discard, c.r.Body, limit)
}

// decode reads the body into v, an empty one as {}. Unknown keys are refused.
func (c *call) decode(v any) error {
	raw := c.body
	if raw == nil {
		raw = []byte("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid("Invalid input for field/attribute %s. It must not be %s", orBody(t.Field), article(t.Value))
	}
	if err != nil {
		return invalid("Invalid request body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func orBody(field string) string {
	if field == "" {
		return "body"
	}
	return field
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// object reads the body as a JSON object.
func (c *call) object() (map[string]any, error) {
	m := map[string]any{}
	if err := c.decode(&m); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, invalid("Invalid request body: it must be an object")
	}
	return m, nil
}

// url is the absolute URL of a path of ours.
func (c *call) url(path string) string {
	if p := c.api.publicEndpoint; p != "" {
		return p + path
	}
	scheme := "http"
	if c.r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.r.Host + path
}
