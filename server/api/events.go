package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"bessemer/store"
)

const (
	maxFollowers  = 256
	eventBatch    = 256
	eventPatience = 10 * time.Second // for a client to take an event
	beat          = 15 * time.Second // between signs of life
	eventPause    = 50 * time.Millisecond
)

// streamEvents sends messages as they are recorded, as server-sent events
// whose id is the message's number. A client that comes back with
// Last-Event-ID (browsers do) or ?after= misses none; one that does not read
// is disconnected, and may come back; one whose user or token is gone may not.
func streamEvents(c *call) error {
	if err := c.only("node", "trace", "run", "after"); err != nil {
		return err
	}
	read, err := c.eventSource()
	if err != nil {
		return err
	}
	after, err := c.eventStart()
	if err != nil {
		return err
	}
	if c.api.followers.Add(1) > maxFollowers {
		c.api.followers.Add(-1)
		return refuse(http.StatusServiceUnavailable, "There are too many event streams")
	}
	defer c.api.followers.Add(-1)
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{c: c, rc: http.NewResponseController(c.w)}
	c.w.WriteHeader(http.StatusOK)
	s.follow(after, read)
	return nil
}

// eventStart is the number of the last message that the client has.
func (c *call) eventStart() (uint64, error) {
	s := c.r.Header.Get("Last-Event-ID")
	if s == "" {
		var ok bool
		if s, ok = c.param("after"); !ok {
			return c.api.db.LastMessage(), nil
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, invalid("Invalid event id %s: it must be a number", shown(s))
	}
	// Numbers go up for ever, unless the store was restored from a backup.
	return min(n, c.api.db.LastMessage()), nil
}

// A source reads up to a number of the messages behind one that a stream is
// for.
type source func(after uint64, limit int) ([]store.Message, error)

// eventSource is the source that a request's filters make. A stream of one
// node or trace does not read the messages of all others.
func (c *call) eventSource() (source, error) {
	db, node, trace := c.api.db, "", c.query.Get("trace")
	if ident, ok := c.param("node"); ok {
		n, err := c.findNode(ident)
		if err != nil {
			return nil, err
		}
		node = n.UUID
	}
	run, err := c.number("run", 0)
	keep := func(m *store.Message) bool {
		return (node == "" || m.Node == node) && (trace == "" || m.Trace == trace) && (run == 0 || m.Run == uint64(run))
	}
	switch {
	case node != "":
		return func(after uint64, limit int) ([]store.Message, error) {
			return db.NodeMessages(node, after, limit, keep)
		}, err
	case trace != "":
		return func(after uint64, limit int) ([]store.Message, error) {
			return db.TraceMessages(trace, after, limit, keep)
		}, err
	}
	return func(after uint64, limit int) ([]store.Message, error) { return db.MessagesAfter(after, limit, keep) }, err
}

// A stream is one client's event stream.
type stream struct {
	c  *call
	rc *http.ResponseController
}

// follow sends messages until the client goes or does not take them.
func (s *stream) follow(after uint64, read source) {
	more := s.c.api.db.Notify(s.c.ctx)
	alive := time.NewTicker(beat)
	defer alive.Stop()
	if !s.write(": connected\nretry: 2000\n\n") {
		return
	}
	for {
		var ok, all bool
		if after, all, ok = s.batch(after, read); !ok {
			return
		}
		if !all {
			continue
		}
		select {
		case <-s.c.ctx.Done():
			return
		case <-alive.C:
			if !s.c.api.Auth.Valid(s.c.id) || !s.write(": alive\n\n") {
				return
			}
		case <-more:
			if !s.pause() {
				return
			}
		}
	}
}

// pause lets more messages come together, so that many streams do not each
// read the store for each message; false when the client has gone.
func (s *stream) pause() bool {
	t := time.NewTimer(eventPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.c.ctx.Done():
		return false
	}
}

// batch sends the next messages behind after. It returns how far it has come,
// and whether that is all there is.
func (s *stream) batch(after uint64, read source) (upto uint64, all, ok bool) {
	newest := s.c.api.db.LastMessage()
	ms, err := read(after, eventBatch)
	if err != nil {
		s.c.api.log.Error().Err(err).Msg("read messages for an event stream")
		return after, true, false
	}
	for i := range ms {
		raw, err := json.Marshal(&ms[i])
		if err != nil || !s.write(fmt.Sprintf("id: %d\nevent: message\ndata: %s\n\n", ms[i].Seq, raw)) {
			return after, true, false
		}
	}
	if len(ms) > 0 {
		after = ms[len(ms)-1].Seq
	}
	if len(ms) < eventBatch { // at least all up to newest were looked at
		return max(after, newest), true, true
	}
	return after, false, true
}

// write sends text now, or says that the client does not take it.
func (s *stream) write(text string) bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.c.api.eventPatience))
	if _, err := s.c.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}
