package server

import (
	"net/http"

	"bessemer/server/conductor"
	"bessemer/store"
)

// A Prove makes the appliance fail where tests want it to. No setting leads
// here.
type Prove struct {
	// Write decides what becomes of the store's write transactions.
	Write store.Fault
	// Times, if set, may shorten the conductor's times that are no settings.
	Times func(*conductor.Timeouts)
	// Agent is put around the transport of calls to agents, Machines around
	// the handler of what machines ask for, API around that of clients.
	Agent         func(http.RoundTripper) http.RoundTripper
	Machines, API func(http.Handler) http.Handler
}

// around puts a wrapper around a handler, if there is one.
func around(wrap func(http.Handler) http.Handler, h http.Handler) http.Handler {
	if wrap == nil {
		return h
	}
	return wrap(h)
}
