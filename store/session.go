package store

import "time"

// A Session is a login at a node's management controller that is open there,
// or was when the appliance last noticed. It holds no secret.
type Session struct {
	Node   string    `json:"node"`
	URL    string    `json:"url"` // of the session's own resource
	Opened time.Time `json:"opened"`
}

// Sessions holds the sessions, one for each node, so that one which a crash
// has left open can be ended.
var Sessions = NewTable("sessions", func(s *Session) string { return s.Node })
