package api

import (
	"errors"
	"net/http"
	"regexp"

	"bessemer/server/auth"
	"bessemer/store"
)

// traceparent is the W3C header by which a caller names its trace.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}`)

// traced runs a handler; when its route has an arrow, as a request from the
// client to the API in the node's trace. A run that the request starts
// continues the trace.
func (c *call) traced(do func(*call) error) error {
	if c.route.opts.arrow == nil {
		return do(c)
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	s := store.Scope{Trace: traceOf(c.r), Node: n.UUID}
	c.ctx = store.WithScope(c.ctx, s)
	c.w.Header().Set("Traceparent", "00-"+s.Trace+"-0000000000000001-01")
	reply := store.Send(c.ctx, c.api.rec, store.Message{
		From: store.ClientP, To: store.API, Label: c.route.opts.arrow(c),
		Node: n.UUID, Trace: s.Trace, Wire: c.wire(0),
	})
	err = do(c)
	status := http.StatusInternalServerError
	if err != nil {
		f := asFault(err, c.requestID())
		status = f.status
		reply(errors.New(f.text), c.wire(status))
		return err
	}
	if sw, ok := c.w.(*statusWriter); ok {
		status = sw.status
	}
	reply(nil, c.wire(status))
	return nil
}

// traceOf is the trace that a request belongs to: its caller's, or a new one.
func traceOf(r *http.Request) string {
	m := traceparent.FindStringSubmatch(r.Header.Get("Traceparent"))
	if m == nil || m[1] == "00000000000000000000000000000000" {
		return store.NewTrace()
	}
	return m[1]
}

// wire is what crossed the network for this call.
func (c *call) wire(status int) *store.Wire {
	return &store.Wire{
		Proto: "http", Method: c.r.Method, Path: c.r.URL.Path, Status: status,
		Peer: auth.Source(c.r), Out: max(0, c.r.ContentLength),
	}
}
