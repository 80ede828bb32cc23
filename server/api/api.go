package api

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"bessemer/server/auth"
	"bessemer/server/conductor"
	"bessemer/store"
)

// Config of [New].
type Config struct {
	DB        *store.DB
	Conductor conductor.API
	Images    Images // nil: no image store
	Auth      *auth.Auth
	Recorder  store.Recorder // nil: DB
	Log       zerolog.Logger

	PublicEndpoint string   // how clients reach us, for links; "": as the request says
	Hosts          []string // host names that requests may name beside addresses and localhost; none: any
	Version        string   // of the appliance
	Listeners      []Listener
	UI             http.Handler // the dashboard at / (for browsers) and /ui/; nil: none
	// Ready says what is not ready yet; nil or an empty answer: all is.
	Ready func() []string
	// Ending ends when requests that still run must give up; nil: never.
	Ending context.Context
}

// A Listener is an address on which something of the appliance answers.
type Listener struct {
	Name    string `json:"name"` // api, provisioning, dhcp, tftp
	Address string `json:"address"`
}

// API serves HTTP.
type API struct {
	Config
	db             *store.DB
	conductor      conductor.API
	rec            store.Recorder
	log            zerolog.Logger
	publicEndpoint string
	secrets        map[string]map[string]bool // driver → driver_info keys
	started        time.Time
	metrics        metrics
	runs           runCounter
	nodes          *catalog[store.Node]
	ports          *catalog[store.Port]
	followers      atomic.Int32 // open event streams
	eventPatience  time.Duration
}

// New returns an API. It does not listen: the handlers are the caller's to
// serve.
func New(c Config) *API {
	a := &API{
		Config: c, db: c.DB, conductor: c.Conductor, rec: c.Recorder, log: c.Log,
		publicEndpoint: strings.TrimRight(c.PublicEndpoint, "/"), started: time.Now(),
		eventPatience: eventPatience,
		nodes:         newCatalog(store.Nodes, nodes),
		ports:         newCatalog(store.Ports, ports),
	}
	if a.rec == nil {
		a.rec = c.DB
	}
	a.learnSecrets()
	if err := a.db.View(a.runs.begin); err != nil {
		a.log.Error().Err(err).Msg("read the runs to be counted")
	}
	return a
}

// Handler serves the API listener.
func (a *API) Handler() http.Handler {
	h := a.router(append(ironicRoutes(), ownRoutes()...), a.root)
	return a.outside(a.Auth.Middleware(public, h), true)
}

// ProvisioningHandler serves the provisioning listener: what a ramdisk may
// ask, and nothing else. Nobody authenticates there.
func (a *API) ProvisioningHandler() http.Handler {
	return a.outside(a.atMost(256, a.router(ramdiskRoutes(), nil)), false)
}

// public says which requests need no credentials.
func public(r *http.Request) bool {
	switch p := r.URL.Path; p {
	case "/", "/v1", "/healthz", "/readyz":
		return true
	case "/api/v1/tokens":
		return r.Method == http.MethodPost // a login brings them in its body
	default:
		return p == "/ui" || strings.HasPrefix(p, "/ui/")
	}
}

// ServerDefaults sets the limits that protect a server from slow and
// oversized requests. Handlers that need longer say so themselves.
func ServerDefaults(s *http.Server) {
	s.ReadHeaderTimeout = 10 * time.Second
	s.ReadTimeout = 0 // per request: bodies have a deadline by their limit
	s.WriteTimeout = 60 * time.Second
	s.IdleTimeout = 2 * time.Minute
	s.MaxHeaderBytes = 64 << 10
}
