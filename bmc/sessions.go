package bmc

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"bessemer/store"
)

// Sessions is where a driver notes the session that it has open with its
// controller, so that one which the process leaves open when it is killed is
// ended by the next one. Small controllers have room for few.
type Sessions interface {
	// Left returns the URL of the session that was noted last and has not
	// ended, "" for none.
	Left() string
	// Opened notes a session, in place of any other.
	Opened(url string)
	// Ended forgets a session; another one that is noted meanwhile stays.
	Ended(url string)
}

// notes are one node's sessions in the store. That it cannot be written costs
// no more than a session that stays open too long, so it is only logged.
type notes struct {
	db   *store.DB
	node string
	log  zerolog.Logger
}

// Left implements [Sessions].
func (n notes) Left() string {
	var s *store.Session
	err := n.db.View(func(tx *store.Tx) (err error) {
		s, err = store.Sessions.Get(tx, n.node)
		return err
	})
	if err == nil {
		return s.URL
	}
	if !errors.Is(err, store.ErrNotFound) {
		n.log.Error().Err(err).Str("node", n.node).Msg("look for a session that was left open")
	}
	return ""
}

// Opened implements [Sessions].
func (n notes) Opened(url string) {
	n.write("note the session with the controller", func(tx *store.Tx) error {
		return store.Sessions.Put(tx, &store.Session{Node: n.node, URL: url, Opened: time.Now()})
	})
}

// Ended implements [Sessions].
func (n notes) Ended(url string) {
	n.write("note the end of the session with the controller", func(tx *store.Tx) error {
		s, err := store.Sessions.Get(tx, n.node)
		if errors.Is(err, store.ErrNotFound) || err == nil && s.URL != url {
			return nil
		}
		if err != nil {
			return err
		}
		return store.Sessions.Delete(tx, n.node)
	})
}

func (n notes) write(what string, fn func(*store.Tx) error) {
	if err := n.db.Batch(fn); err != nil {
		n.log.Error().Err(err).Str("node", n.node).Msg(what)
	}
}

// forgetful notes nothing.
type forgetful struct{}

func (forgetful) Left() string  { return "" }
func (forgetful) Opened(string) {}
func (forgetful) Ended(string)  {}

// noted returns where the sessions of a node are noted.
func (p *Pool) noted(node string) Sessions {
	if p.o.DB == nil {
		return forgetful{}
	}
	return notes{p.o.DB, node, p.o.Log}
}
