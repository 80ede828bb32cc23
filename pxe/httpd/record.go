package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"bessemer/store"
)

// An arrow is a request worth drawing.
type arrow struct {
	node  string
	label string
	reply string // label of the arrow back, when it is another
	to    store.Participant
	path  string // as recorded: without tokens
}

// record draws the arrow of a node's request and returns what draws the one
// back. HEAD, and ranges beyond the first (an agent reads a qcow2 image in
// dozens of them), are parts of a download and not drawn.
func (h *handler) record(ctx context.Context, a arrow, r *http.Request) func(status int, sent int64, err error) {
	begun := time.Now()
	first := r.Header.Get("Range") == "" || strings.HasPrefix(r.Header.Get("Range"), "bytes=0-")
	draw := a.node != "" && r.Method == http.MethodGet && first
	var seq uint64
	if draw {
		seq = h.cfg.Recorder.Record(ctx, store.Message{
			Node: a.node, From: store.NodeP, To: a.to, Kind: store.Request, Label: a.label,
			Wire: &store.Wire{Proto: "http", Method: r.Method, Path: a.path, Peer: peer(r).String()},
		})
	}
	return func(status int, sent int64, err error) {
		took := time.Since(begun)
		h.log.Debug().Str("method", r.Method).Str("path", a.path).Stringer("from", peer(r)).
			Int("status", status).Int64("bytes", sent).Dur("took", took).AnErr("error", err).Msg("served")
		if draw {
			h.cfg.Recorder.Record(ctx, answer(a, r, seq, status, sent, took, err))
		}
	}
}

func answer(a arrow, r *http.Request, seq uint64, status int, sent int64, took time.Duration, err error) store.Message {
	m := store.Message{
		Node: a.node, From: a.to, To: store.NodeP, Kind: store.Reply, Label: a.label, ReplyTo: seq,
		Dur: took, Outcome: store.OK,
		Wire: &store.Wire{Proto: "http", Method: r.Method, Path: a.path, Status: status, Peer: peer(r).String(), Out: sent},
	}
	if a.reply != "" {
		m.Label = a.reply
	}
	switch {
	case err != nil:
		m.Outcome, m.Error = store.Failed, err.Error()
	case status >= 400:
		m.Outcome, m.Error = store.Failed, fmt.Sprintf("%d %s", status, http.StatusText(status))
	}
	return m
}
