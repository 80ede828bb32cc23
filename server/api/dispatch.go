package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

// router returns a handler for routes. root serves "/" (nil: a route does).
func (a *API) router(routes []route, root http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	byPath := map[string]map[string]*route{}
	for i := range routes {
		r := &routes[i]
		if byPath[r.path] == nil {
			byPath[r.path] = map[string]*route{}
		}
		byPath[r.path][r.method] = r
	}
	for p, methods := range byPath {
		pattern := p
		if p == "/" {
			pattern = "/{$}"
		}
		mux.Handle(pattern, a.methods(methods))
	}
	if root != nil {
		mux.HandleFunc("/{$}", root)
		if a.UI != nil {
			mux.Handle("/ui/", a.UI)
			mux.Handle("/ui", http.RedirectHandler("/ui/", http.StatusFound))
		}
	}
	mux.HandleFunc("/", a.notFound)
	return mux
}

// methods picks the route by the request's method; HEAD is GET without a
// body.
func (a *API) methods(routes map[string]*route) http.HandlerFunc {
	var allow []string
	for m := range routes {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	return func(w http.ResponseWriter, r *http.Request) {
		m := r.Method
		if m == http.MethodHead {
			m = http.MethodGet
		}
		rt := routes[m]
		if rt == nil {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			c := a.newCall(w, r, nil)
			c.fail(abort(http.StatusMethodNotAllowed, "The method %s is not allowed for this resource", r.Method))
			return
		}
		a.metrics.named(r, rt)
		a.newCall(w, r, rt).run()
	}
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	a.newCall(w, r, nil).fail(abort(http.StatusNotFound, "The resource could not be found."))
}

func (a *API) newCall(w http.ResponseWriter, r *http.Request, rt *route) *call {
	id, _ := auth.From(r.Context())
	_, suffix := r.Context().Value(suffixKey{}).(bool)
	return &call{
		api: a, w: w, r: r, ctx: r.Context(), route: rt, id: id, suffix: suffix,
		own: isOwn(r.URL.Path), query: r.URL.Query(),
	}
}

func isOwn(path string) bool { return path != "/" && path != "/v1" && !strings.HasPrefix(path, "/v1/") }

// run takes a call through its checks to its handler.
func (c *call) run() {
	err := c.prepare()
	if err == nil {
		err = c.traced(c.route.do)
	}
	if err != nil {
		c.fail(err)
	}
}

// prepare checks version, role and body, in this order.
func (c *call) prepare() error {
	o := c.route.opts
	if !c.own {
		var err error
		if c.v, err = negotiate(c.w, c.r); err != nil {
			return err
		}
		if c.v < o.since {
			return tooOld(o)
		}
	}
	if err := c.authorize(); err != nil {
		return err
	}
	if o.stream || c.r.Method == http.MethodGet || c.r.Method == http.MethodHead {
		return nil
	}
	limit := o.limit
	if limit == 0 {
		limit = defaultLimit
	}
	return c.readBody(limit)
}

// tooOld is the answer below the version that brought an endpoint. Ironic
// gives three different ones, which its tests hold it to.
func tooOld(o routeOpts) error {
	switch o.below {
	case http.StatusMethodNotAllowed:
		return abort(http.StatusMethodNotAllowed, "The method is not allowed for this resource in the requested API version")
	case http.StatusNotAcceptable:
		return notAcceptable("this endpoint", o.since)
	}
	return refuse(http.StatusNotFound, "The resource could not be found in the requested API version.")
}

// authorize lets readers read and admins do all.
func (c *call) authorize() error {
	o := c.route.opts
	reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead
	if o.open || o.anyone || c.id.Admin() || reads && !o.admin && c.id.Role == auth.Reader {
		return nil
	}
	return refuse(http.StatusForbidden, "The user %s has the role %s, which may not do this", shown(c.id.User), shown(c.id.Role))
}

// fail answers with an error. The handler must not have answered.
func (c *call) fail(err error) {
	f := c.ended(err)
	if f == nil {
		f = asFault(err, c.requestID())
	}
	if f.status >= 500 && f.status != http.StatusServiceUnavailable {
		c.api.log.Error().Err(err).Str("request", c.requestID()).Str("method", c.r.Method).Str("path", c.r.URL.Path).Msg("request failed")
	}
	if c.route != nil && c.route.opts.stream {
		c.refuseBody(f)
		return
	}
	c.drain(1 << 20)
	c.writeFault(f)
}

// refuseBody answers a request whose body may be as long as an image. It keeps
// reading for a while what the client still sends, so that the answer reaches
// it: a connection that is closed over bytes which nobody has read is reset,
// answer and all.
func (c *call) refuseBody(f *fault) {
	rc := http.NewResponseController(c.w)
	_ = rc.EnableFullDuplex() // the body can be read after the answer
	c.w.Header().Set("Connection", "close")
	c.writeFault(f)
	if rc.Flush() == nil {
		c.drain(256 << 20)
	}
}

// lasting returns a context for work that a client's hanging up must not
// leave half done, and gives the answer that much time to be sent. It ends
// early when the appliance does.
func (c *call) lasting(d time.Duration) (context.Context, context.CancelFunc) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(d + 30*time.Second))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), d)
	if c.api.Ending == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(c.api.Ending, cancel)
	return ctx, func() { stop(); cancel() }
}

// ended is the answer to a request that gave up because the appliance ends.
func (c *call) ended(err error) *fault {
	if e := c.api.Ending; e == nil || e.Err() == nil || !errors.Is(err, context.Canceled) {
		return nil
	}
	return &fault{status: http.StatusServiceUnavailable, text: "The appliance is being stopped"}
}

type suffixKey struct{}

// resources are the first elements of Ironic's paths, which may come without
// the /v1 before them.
var resources = []string{
	"nodes", "ports", "portgroups", "chassis", "drivers", "conductors", "volume", "allocations",
	"deploy_templates", "events", "shards", "lookup", "heartbeat", "continue_inspection",
}

// normalize brings Ironic's spellings of a path to one: with /v1, without a
// slash or ".json" at the end.
func normalize(r *http.Request) *http.Request {
	p := r.URL.EscapedPath()
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	if slices.Contains(resources, strings.TrimSuffix(first, ".json")) {
		p = "/v1" + p
	}
	if len(p) > 1 && !strings.HasPrefix(p, "/ui/") {
		p = strings.TrimSuffix(p, "/")
	}
	ctx := r.Context()
	if last := path.Base(p); strings.HasPrefix(p, "/v1/") && len(last) > len(".json") && strings.HasSuffix(last, ".json") {
		p = strings.TrimSuffix(p, ".json")
		ctx = context.WithValue(ctx, suffixKey{}, true)
	}
	plain, err := url.PathUnescape(p)
	if err != nil || p == r.URL.EscapedPath() {
		return r
	}
	r = r.WithContext(ctx)
	u := *r.URL
	u.Path, u.RawPath = plain, p
	r.URL = &u
	return r
}

// says is an arrow's label that does not depend on the request.
func says(label string) func(*call) string { return func(*call) string { return label } }

// Labels of seed 000's first arrows.
const (
	labelValidate          = store.LabelValidate
	labelPlugVIFs          = store.LabelPlugVIFs
	labelSetPower          = store.LabelSetPower
	labelSetProvisionState = store.LabelSetProvisionState
)
