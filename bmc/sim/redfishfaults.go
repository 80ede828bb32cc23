package sim

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"bessemer/bmc/sim/flaw"
)

// oddity is what a service remembers for its quirks; rf.mu guards it.
type oddity struct {
	conns    map[string]bool // connections that were used
	requests int             // so far
	refused  int             // logins in a row
	lockedTo time.Time       // no login before
	parent   bool            // the collection of systems was read (B-18)
}

// survives lets a request meet the faults of its controller, and the quirks
// that concern any request. It returns false when the request is answered, or
// never will be.
func (c *call) survives(w http.ResponseWriter, r *http.Request) bool {
	flaws := c.ctl.Flaws
	if _, hit := flaws.Hit(flaw.BMCHang); hit {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody)) // else the client's end is not seen
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	if _, hit := flaws.Hit(flaw.BMCDown); hit || c.drops(r) {
		panic(http.ErrAbortHandler)
	}
	if f, hit := flaws.Hit(flaw.BMCSlow); hit {
		if f.Delay == 0 {
			f.Delay = 2 * time.Second
		}
		if !pause(r.Context(), f.Delay) {
			panic(http.ErrAbortHandler)
		}
	}
	if err := c.refusal(r); err != nil {
		c.write(w, reply{}, err)
		return false
	}
	return true
}

// refusal is what a controller answers that cannot or does not want to.
func (c *call) refusal(r *http.Request) error {
	if _, hit := c.ctl.Flaws.Hit(flaw.BMC500); hit {
		return &fault{status: 500, message: "InternalError", text: "The request failed due to an internal service error."}
	}
	if _, hit := c.ctl.Flaws.Hit(flaw.BMC503); hit {
		return &fault{
			status: 503, message: "ServiceTemporarilyUnavailable", args: []string{"1"}, header: c.retryAfter(),
			text: "The service is temporarily unavailable. Retry in 1 seconds.",
		}
	}
	switch {
	case c.on("R-12") && c.rf.unready():
		return &fault{status: 503, message: "SYS518", text: "iDRAC is not ready. The operation cannot be done now.", header: c.retryAfter()}
	case c.on("R-08") && r.Header.Get("Accept-Encoding") == "identity":
		return &fault{status: 406, message: "HeaderInvalid", text: "The encoding that is asked for is not supported."}
	case c.on("R-05") && r.Method == http.MethodPost && r.Header.Get("If-Match") != "":
		return mismatch()
	}
	return nil
}

// retryAfter asks for a pause of a second.
func (c *call) retryAfter() map[string]string {
	return map[string]string{"Retry-After": fmt.Sprint(int(c.ctl.lasts(time.Second).Seconds()))}
}

// drops reports whether the connection of a request ends because it was used
// before.
func (c *call) drops(r *http.Request) bool {
	if !c.on("R-07") {
		return false
	}
	c.rf.mu.Lock()
	defer c.rf.mu.Unlock()
	o := &c.rf.oddity
	if o.conns[r.RemoteAddr] {
		delete(o.conns, r.RemoteAddr)
		return true
	}
	if o.conns == nil || len(o.conns) > 64 {
		o.conns = map[string]bool{}
	}
	o.conns[r.RemoteAddr] = true
	return false
}

// unready reports whether the controller is busy with itself: at one request
// of seven.
func (rf *Redfish) unready() bool {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	rf.oddity.requests++
	return rf.oddity.requests%7 == 0
}

// unlocked counts logins, and reports whether the account is not locked.
func (rf *Redfish) unlocked(c call, right bool) bool {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	o := &rf.oddity
	if !c.on("R-11") {
		o.refused, o.lockedTo = 0, time.Time{}
		return true
	}
	if time.Now().Before(o.lockedTo) {
		return false
	}
	if right {
		o.refused = 0
		return true
	}
	if o.refused++; o.refused >= 3 {
		o.refused, o.lockedTo = 0, time.Now().Add(c.ctl.lasts(10*time.Minute))
	}
	return false
}

// noRoom is the error of a login when others hold all sessions.
func (c call) noRoom() error {
	if _, hit := c.ctl.Flaws.Hit(flaw.BMCSessions); !hit && !c.on("R-06") {
		return nil
	}
	return &fault{
		status: 503, message: "RAC0218",
		text: "The maximum number of user sessions is reached. Close a session, or wait until one ends.",
	}
}

// particular checks what some controllers are particular about in a body.
func (c call) particular(raw []byte) error {
	if !c.on("R-13") {
		return nil
	}
	kind, _, _ := strings.Cut(c.Header.Get("Content-Type"), ";")
	switch {
	case len(raw) == 0:
		return &fault{status: 400, message: "MalformedJSON", text: "The request has no body."}
	case kind != "application/json":
		return &fault{status: 415, message: "UnsupportedMediaType", text: "The media type " + kind + " is not supported."}
	}
	return nil
}

// oddMatch is the refusal of a change for its If-Match by a controller that is
// particular about it.
func (c call) oddMatch(ifMatch string) error {
	switch {
	case c.on("R-02") && ifMatch != "":
		return mismatch()
	case ifMatch == "" && !c.on("R-02") && (c.on("R-01") || c.on("R-03") || c.on("R-04")):
		return needsMatch()
	}
	return nil
}

// tags returns an ETag as it stands in the header and in the body of the
// resource, and as it is wanted back: strong and the same, unless a web server
// in front adds to it or it is quoted twice.
func (c call) tags(etag string) (header, body, want string) {
	switch {
	case c.on("R-04"):
		return `"` + etag + `"`, "W/" + etag, "W/" + etag
	case c.on("R-03"):
		return "W/" + strings.TrimSuffix(etag, `"`) + `-gzip"`, "", "W/" + etag
	}
	return etag, "", etag
}

// writePage writes an error as a web server does that knows nothing of
// Redfish.
func writePage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<html><head><title>%d %s</title></head><body><h1>%[2]s</h1></body></html>\n", status, http.StatusText(status))
}

// others adds to a collection what is no machine of ours, and notes
// that it was read (B-18).
func (c call) others(collection string, ids []string) []string {
	if collection != "Systems" {
		return ids
	}
	c.rf.mu.Lock()
	c.rf.oddity.parent = true
	c.rf.mu.Unlock()
	if c.on("R-28") {
		ids = append(ids, "DPU.Embedded.1")
	}
	return ids
}
