package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
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
}

// Redfish is the management controller of one or more machines (DSP0266). A
// system's, chassis's and manager's id is its machine's name.
type Redfish struct {
	opts     RedfishOptions
	machines []Machine
	mux      *http.ServeMux

	mu       sync.Mutex
	sessions map[string]*session // by token
	lastID   int
}

// A doc is a JSON object.
type doc = map[string]any

// A call is a request to a resource.
type call struct {
	*http.Request
	machine Machine // the one that the path names, if any
	body    doc
}

// A reply is what a resource answers; status 0 is 200, or 204 without body.
type reply struct {
	status int
	header map[string]string
	body   doc
}

// A method answers one HTTP method of a resource.
type method func(call) (reply, error)

const root = "/redfish/v1"

// NewRedfish returns a service for machines, to be given to a server.
func NewRedfish(o RedfishOptions, machines ...Machine) *Redfish {
	if o.MaxSessions == 0 {
		o.MaxSessions = 8
	}
	if o.SessionLife == 0 {
		o.SessionLife = 30 * time.Minute
	}
	if o.ResetTypes == nil {
		o.ResetTypes = allResetTypes()
	}
	rf := &Redfish{opts: o, machines: machines, mux: http.NewServeMux(), sessions: map[string]*session{}}
	rf.routes()
	return rf
}

// routes lists all resources.
func (rf *Redfish) routes() {
	type m = map[string]method
	const system, chassis, manager = "/Systems/{machine}", "/Chassis/{machine}", "/Managers/{machine}"
	rf.public("/redfish", m{"GET": rf.getVersions})
	rf.public(root, m{"GET": rf.getRoot})
	rf.public(root+"/odata", m{"GET": rf.getOData})
	if !rf.opts.NoSessions {
		rf.public(root+"/SessionService", m{"GET": rf.getSessionService})
		rf.public(root+"/SessionService/Sessions", m{"GET": rf.authenticated(rf.getSessions), "POST": rf.postSession})
		rf.route("/SessionService/Sessions/{session}", m{"GET": rf.getSession, "DELETE": rf.deleteSession})
	}
	rf.route("/Systems", m{"GET": rf.getCollection("Systems", "ComputerSystemCollection.ComputerSystemCollection")})
	rf.route("/Chassis", m{"GET": rf.getCollection("Chassis", "ChassisCollection.ChassisCollection")})
	rf.route("/Managers", m{"GET": rf.getCollection("Managers", "ManagerCollection.ManagerCollection")})
	rf.route(system, m{"GET": rf.getSystem, "PATCH": rf.patchSystem})
	rf.route(system+"/Actions/ComputerSystem.Reset", m{"POST": rf.postReset})
	rf.route(system+"/Bios", m{"GET": rf.getBios})
	rf.route(system+"/Bios/Settings", m{"GET": rf.getBiosSettings, "PATCH": rf.patchBiosSettings})
	rf.route(system+"/EthernetInterfaces", m{"GET": rf.getNICs})
	rf.route(system+"/EthernetInterfaces/{nic}", m{"GET": rf.getNIC})
	rf.route(system+"/Storage", m{"GET": rf.getStorages})
	rf.route(system+"/Storage/1", m{"GET": rf.getStorage})
	rf.route(system+"/Storage/1/Drives/{drive}", m{"GET": rf.getDrive})
	rf.route(chassis, m{"GET": rf.getChassis})
	rf.route(manager, m{"GET": rf.getManager})
}

// route adds a resource below the root that only users may reach.
func (rf *Redfish) route(path string, methods map[string]method) {
	guarded := map[string]method{}
	for name, m := range methods {
		guarded[name] = rf.authenticated(m)
	}
	rf.public(root+path, guarded)
}

// public adds a resource that everybody may reach.
func (rf *Redfish) public(path string, methods map[string]method) {
	rf.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		rf.serve(w, r, methods)
	})
}

// ServeHTTP implements http.Handler.
func (rf *Redfish) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !pause(r.Context(), rf.opts.Delay) {
		return // the client is gone
	}
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Cache-Control", "no-cache")
	// A trailing slash names the same resource (DSP0266, 6.5.1).
	if len(r.URL.Path) > 1 {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
	}
	if _, pattern := rf.mux.Handler(r); pattern == "" {
		write(w, r, reply{}, missing(r.URL.Path))
		return
	}
	rf.mux.ServeHTTP(w, r)
}

func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
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

func (rf *Redfish) serve(w http.ResponseWriter, r *http.Request, methods map[string]method) {
	name := r.Method
	if name == http.MethodHead {
		name = http.MethodGet
	}
	do, ok := methods[name]
	if !ok {
		write(w, r, reply{}, notAllowed(r.Method, methods))
		return
	}
	c := call{Request: r}
	if id := r.PathValue("machine"); id != "" {
		if c.machine = rf.machine(id); c.machine == nil {
			write(w, r, reply{}, missing(r.URL.Path))
			return
		}
	}
	out, err := rf.do(w, c, methods, do)
	write(w, r, out, err)
}

// do reads the body and checks the precondition of a change before it makes it.
func (rf *Redfish) do(w http.ResponseWriter, c call, methods map[string]method, do method) (reply, error) {
	if c.Method == http.MethodPost || c.Method == http.MethodPatch {
		if err := json.NewDecoder(http.MaxBytesReader(w, c.Body, 1<<20)).Decode(&c.body); err != nil {
			return reply{}, malformed(err)
		}
	}
	if c.Method != http.MethodPatch {
		return do(c)
	}
	now, err := methods["GET"](c)
	if err != nil {
		return reply{}, err
	}
	if err := rf.precondition(c.Header.Get("If-Match"), etag(now.body)); err != nil {
		return reply{}, err
	}
	return do(c)
}

func (rf *Redfish) machine(name string) Machine {
	for _, m := range rf.machines {
		if m.Spec().Name == name {
			return m
		}
	}
	return nil
}
