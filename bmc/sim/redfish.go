package sim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"bessemer/bmc/sim/flaw"
)

// RedfishOptions says how a Redfish service behaves.
type RedfishOptions struct {
	User, Password string // User "" lets everybody in
	NoSessions     bool   // Basic authentication only (quirk R-09)
	NoBasic        bool   // sessions only
	RequireETag    bool   // a PATCH needs If-Match (quirk R-01)
	MaxSessions    int    // 0 for 8; one more is refused (quirk R-06)
	SessionLife    time.Duration
	Delay          time.Duration // before each answer: real controllers take their time
	// ResetTypes are the values that ComputerSystem.Reset allows; nil for all.
	ResetTypes []string
	// Controllers returns what stands behind the service for a machine: its
	// flaws are read at each request. Nil: a controller without flaws is made.
	Controllers func(Machine) *Controller
}

// Redfish is the management controller of one or more machines (DSP0266). A
// system's, chassis's and manager's id is its machine's name. An idle one is
// small: a thousand fit into a process.
type Redfish struct {
	opts        RedfishOptions
	machines    []Machine
	controllers []*Controller // of machines, in their order

	mu       sync.Mutex
	sessions map[string]*session // by token
	lastID   int
	oddity   oddity
}

// A doc is a JSON object.
type doc = map[string]any

// A call is a request to a resource.
type call struct {
	*http.Request
	rf      *Redfish
	machine Machine // the one that the path names, if any
	ctl     *Controller
	body    doc
}

// on reports whether the controller that is called has a quirk.
func (c call) on(id flaw.ID) bool { return c.ctl.Flaws.On(id) }

// A reply is what a resource answers; status 0 is 200, or 204 without body.
type reply struct {
	status int
	header map[string]string
	body   doc
}

const (
	root    = "/redfish/v1"
	maxBody = 1 << 20 // of a request
)

// NewRedfish returns a service for machines, to be given to a server.
func NewRedfish(o RedfishOptions, machines ...Machine) *Redfish {
	if o.MaxSessions == 0 {
		o.MaxSessions = 8
	}
	if o.SessionLife == 0 {
		o.SessionLife = 30 * time.Minute
	}
	rf := &Redfish{opts: o, machines: machines}
	for _, m := range machines {
		var c *Controller
		if o.Controllers != nil {
			c = o.Controllers(m)
		}
		if c == nil {
			c = NewController(m, nil)
			if u, ok := m.(interface{ Use(*Controller) }); ok {
				u.Use(c)
			}
		}
		rf.controllers = append(rf.controllers, c)
	}
	if len(machines) == 0 {
		rf.controllers = []*Controller{NewController(nil, nil)}
	}
	return rf
}

// serviceKey is where the context of a request holds its service and call, as
// all services share one table of routes.
type serviceKey struct{}

// ServeHTTP implements http.Handler.
func (rf *Redfish) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A trailing slash names the same resource (DSP0266, 6.5.1).
	if len(r.URL.Path) > 1 {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
	}
	c := &call{rf: rf}
	c.machine, c.ctl = rf.find(r.URL.Path)
	if !pause(r.Context(), rf.opts.Delay) || !c.survives(w, r) {
		return
	}
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Cache-Control", "no-cache")
	c.Request = r.WithContext(context.WithValue(r.Context(), serviceKey{}, c))
	if _, pattern := routes().Handler(r); pattern == "" {
		c.write(w, reply{}, missing(r.URL.Path))
		return
	}
	routes().ServeHTTP(w, c.Request)
}

// find returns the machine that a path is about, nil when it is about none,
// and the controller that answers.
func (rf *Redfish) find(path string) (Machine, *Controller) {
	parts := strings.Split(strings.TrimPrefix(path, root+"/"), "/")
	if len(parts) > 1 {
		for i, m := range rf.machines {
			if m.Spec().Name == parts[1] {
				return m, rf.controllers[i]
			}
		}
	}
	return nil, rf.controllers[0]
}

func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// serve answers a request to a resource with the given methods.
func (c *call) serve(w http.ResponseWriter, methods map[string]method) {
	name := c.Method
	if name == http.MethodHead {
		name = http.MethodGet
	}
	do, ok := methods[name]
	switch {
	case !ok:
		c.write(w, reply{}, notAllowed(c.Method, methods))
	case c.PathValue("machine") != "" && c.machine == nil:
		c.write(w, reply{}, missing(c.URL.Path))
	default:
		out, err := c.do(methods, do)
		c.write(w, out, err)
	}
}

// do reads the body and checks the precondition of a change before it makes it.
func (c *call) do(methods map[string]method, do method) (reply, error) {
	if c.Method == http.MethodPost || c.Method == http.MethodPatch {
		if err := c.read(); err != nil {
			return reply{}, err
		}
	}
	if c.Method != http.MethodPatch {
		return do(c.rf, *c)
	}
	now, err := methods["GET"](c.rf, *c)
	if err != nil {
		return reply{}, err
	}
	if err := c.precondition(etag(now.body)); err != nil {
		return reply{}, err
	}
	return do(c.rf, *c)
}

// read decodes the request's body. An action without parameters may come
// without one, unless the controller is particular about it.
func (c *call) read() error {
	raw, err := io.ReadAll(io.LimitReader(c.Request.Body, maxBody+1))
	switch {
	case err != nil:
		return malformed(err)
	case len(raw) > maxBody:
		return malformed(errors.New("it is too large"))
	case len(raw) == 0 && !c.on("R-13") && strings.Contains(c.URL.Path, "/Actions/"):
		c.body = doc{}
		return nil
	}
	if err := c.particular(raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &c.body); err != nil {
		return malformed(err)
	}
	return nil
}
