package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
)

// qmp speaks QEMU's machine protocol on a connected socket: JSON objects, one
// a line; answers carry the request's id, events none.
type qmp struct {
	conn   net.Conn
	events chan qmpEvent // closed when the connection ends

	mu      sync.Mutex
	next    int
	waiting map[int]chan qmpMessage
	err     error // why the connection ended
}

type qmpMessage struct {
	ID     *int            `json:"id"`
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

type qmpEvent struct {
	name   string
	reason string // of SHUTDOWN and RESET
}

// errQMP is returned for calls on a connection that has ended.
var errQMP = errors.New("qemu closed its control socket")

// newQMP takes over conn; the caller must drain events and, at the end, close
// the connection.
func newQMP(conn net.Conn) *qmp {
	q := &qmp{conn: conn, events: make(chan qmpEvent, 64), waiting: map[int]chan qmpMessage{}}
	go q.read()
	return q
}

// read ends when the connection does; closing events tells its owner.
func (q *qmp) read() {
	defer close(q.events)
	lines := bufio.NewScanner(q.conn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m qmpMessage
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue
		}
		switch {
		case m.Event != "":
			var d struct {
				Reason string `json:"reason"`
			}
			_ = json.Unmarshal(m.Data, &d) // most events have other data
			q.events <- qmpEvent{m.Event, d.Reason}
		case m.ID != nil:
			q.answer(*m.ID, m)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = errQMP
	for id, c := range q.waiting {
		close(c)
		delete(q.waiting, id)
	}
}

func (q *qmp) answer(id int, m qmpMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.waiting[id]; ok {
		c <- m
		delete(q.waiting, id)
	}
}

// call executes a command without arguments and waits for its answer.
func (q *qmp) call(ctx context.Context, command string) error {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return fmt.Errorf("qmp %s: %w", command, q.err)
	}
	q.next++
	id, c := q.next, make(chan qmpMessage, 1)
	q.waiting[id] = c
	q.mu.Unlock()

	line, err := json.Marshal(map[string]any{"execute": command, "id": id})
	if err != nil {
		return err
	}
	if _, err := q.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	select {
	case m, ok := <-c:
		if !ok {
			return fmt.Errorf("qmp %s: %w", command, errQMP)
		}
		if m.Error != nil {
			return fmt.Errorf("qmp %s: %s: %s", command, m.Error.Class, m.Error.Desc)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("qmp %s: %w", command, ctx.Err())
	}
}
