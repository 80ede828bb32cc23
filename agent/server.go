package agent

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"bessemer/agent/wire"
)

// maxRequest is the largest command; a node and a config drive fit.
const maxRequest = 96 << 20

// handler is the command API, as Ironic-Python-Agent has it.
type handler struct {
	x       *executor
	token   string
	version string
	url     string
	started time.Time
}

func newHandler(x *executor, token, version, url string) http.Handler {
	return &handler{x, token, version, url, time.Now()}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routes().ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), handlerKey{}, h)))
}

// handlerKey is the context's key of the handler that a request came to.
type handlerKey struct{}

// routes are the same for all agents of a process: a simulated rack has many.
var routes = sync.OnceValue(func() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", on((*handler).root))
	for _, slash := range []string{"", "/{$}"} {
		m.HandleFunc("GET /v1"+slash, on((*handler).v1))
		m.HandleFunc("GET /v1/status"+slash, on((*handler).status))
		m.HandleFunc("GET /v1/commands"+slash, guarded((*handler).list))
		m.HandleFunc("POST /v1/commands"+slash, guarded((*handler).execute))
		m.HandleFunc("GET /v1/commands/{id}"+slash, guarded((*handler).one))
		for _, path := range []string{"/v1", "/v1/status", "/v1/commands", "/v1/commands/{id}"} {
			m.HandleFunc(path+slash, func(w http.ResponseWriter, _ *http.Request) {
				fault(w, http.StatusMethodNotAllowed, "405 Method Not Allowed: The method is not allowed for the requested URL.")
			})
		}
	}
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fault(w, http.StatusNotFound, "404 Not Found: The requested URL was not found on the server.")
	})
	return m
})

// A method answers a request of one path.
type method func(*handler, http.ResponseWriter, *http.Request)

// on has a method answer.
func on(do method) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h, ok := r.Context().Value(handlerKey{}).(*handler)
		if !ok {
			fault(w, http.StatusInternalServerError, "the request came to no agent")
			return
		}
		do(h, w, r)
	}
}

// serveHTTP serves until ctx ends or the agent is locked down, which ends
// serving; answers on their way get half a second.
func serveHTTP(ctx, serving context.Context, ln net.Listener, id *identity, h http.Handler) error {
	if id.cert != nil {
		ln = tls.NewListener(ln, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*id.cert}})
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: log.New(io.Discard, "", 0), // of handshakes that fail: anyone can cause those
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(serving, func() {
		defer close(ended)
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
		defer cancel()
		if s.Shutdown(bye) != nil {
			s.Close()
		}
	})
	err := s.Serve(ln)
	if stop() {
		return fmt.Errorf("serve commands: %w", err)
	}
	<-ended
	return ctx.Err()
}

// guarded asks for the token before anything else is looked at.
func guarded(do method) http.HandlerFunc {
	return on(func(h *handler, w http.ResponseWriter, r *http.Request) {
		got := r.Header.Get("X-Agent-Token")
		if got == "" {
			got = r.URL.Query().Get("agent_token")
		}
		if h.token == "" || subtle.ConstantTimeCompare([]byte(got), []byte(h.token)) != 1 {
			fault(w, http.StatusUnauthorized, "401 Unauthorized: Token invalid.")
			return
		}
		do(h, w, r)
	})
}

func (h *handler) list(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, wire.Commands{Commands: h.x.list()})
}

func (h *handler) one(w http.ResponseWriter, r *http.Request) {
	c, ok := h.x.find(r.Context(), r.PathValue("id"), isTrue(r, "wait"))
	if !ok {
		fault(w, http.StatusNotFound, fmt.Sprintf("Not found: Command Result with id %s not found.", short(r.PathValue("id"))))
		return
	}
	answerJSON(w, http.StatusOK, c)
}

func (h *handler) execute(w http.ResponseWriter, r *http.Request) {
	var req wire.CommandRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&req); err != nil || req.Name == "" {
		fault(w, http.StatusBadRequest, "Invalid command: Missing or invalid name or params")
		return
	}
	c, err := h.x.execute(r.Context(), req, isTrue(r, "wait"))
	var bad *paramError
	switch {
	case err == nil:
		answerJSON(w, http.StatusOK, c)
	case errors.Is(err, errNoExtension):
		ext, _, _ := strings.Cut(req.Name, ".")
		fault(w, http.StatusNotFound, fmt.Sprintf("Not found: Extension with id %s not found.", short(ext)))
	case errors.Is(err, errBusy):
		fault(w, http.StatusConflict, "Agent is busy"+strings.TrimPrefix(err.Error(), errBusy.Error()))
	case errors.As(err, &bad):
		fault(w, http.StatusBadRequest, bad.text)
	default:
		fault(w, http.StatusInternalServerError, err.Error())
	}
}

func isTrue(r *http.Request, key string) bool {
	return strings.EqualFold(r.URL.Query().Get(key), "true")
}

func (h *handler) status(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, map[string]any{"started_at": float64(h.started.UnixMilli()) / 1000, "version": h.version})
}

func (h *handler) root(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, map[string]any{
		"name": "Bessemer agent", "description": "Deploy agent of Bessemer; speaks the API of Ironic-Python-Agent",
		"versions": []any{h.versionDoc()}, "default_version": h.versionDoc(),
	})
}

func (h *handler) v1(w http.ResponseWriter, _ *http.Request) {
	d := h.versionDoc()
	d["links"] = []wire.Link{{Href: h.url + "/v1/", Rel: "self"}}
	d["commands"] = []wire.Link{{Href: h.url + "/v1/commands/", Rel: "self"}}
	d["status"] = []wire.Link{{Href: h.url + "/v1/status/", Rel: "self"}}
	d["media_types"] = []any{map[string]string{"base": "application/json", "type": "application/vnd.openstack.ironic-python-agent.v1+json"}}
	answerJSON(w, http.StatusOK, d)
}

func (h *handler) versionDoc() map[string]any {
	return map[string]any{"id": "v1", "links": []wire.Link{{Href: h.url + "/v1", Rel: "self"}}}
}

// fault answers an error in Ironic-Python-Agent's shape.
func fault(w http.ResponseWriter, code int, text string) {
	side := "Client"
	if code >= 500 {
		side = "Server"
	}
	answerJSON(w, code, struct {
		Code   string `json:"faultcode"`
		String string `json:"faultstring"`
	}{side, text})
}

func answerJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"faultcode":"Server","faultstring":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(b)
}
