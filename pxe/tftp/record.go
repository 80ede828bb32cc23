package tftp

import (
	"context"
	"time"

	"bessemer/pxe"
	"bessemer/store"
)

// recordRequest draws the arrow of a node's request; unknown machines have none.
func (s *Server) recordRequest(ctx context.Context, b pxe.Boot, t transfer) uint64 {
	if b.Node == "" {
		return 0
	}
	return s.cfg.Recorder.Record(ctx, store.Message{
		From: store.NodeP, To: store.Boot, Kind: store.Request, Label: store.LabelFetchBootfile,
		Wire:   &store.Wire{Proto: "tftp", Method: "RRQ", Path: t.name, Peer: t.from.String()},
		Detail: map[string]any{"file": t.name},
	})
}

type reply struct {
	seq   uint64
	begun time.Time
	sent  int64
	err   error
	probe bool // the client wanted the size only: EDK2 asks, and ends with an ERROR packet
}

func (s *Server) recordReply(ctx context.Context, b pxe.Boot, t transfer, r reply) {
	if r.seq == 0 {
		return
	}
	m := store.Message{
		From: store.Boot, To: store.NodeP, Kind: store.Reply, Label: store.LabelFetchBootfile, ReplyTo: r.seq,
		Dur: time.Since(r.begun), Outcome: store.OK,
		Wire: &store.Wire{Proto: "tftp", Method: "DATA", Path: t.name, Peer: t.from.String(), Out: r.sent},
	}
	switch {
	case r.probe:
		m.Wire.Method = "OACK"
		m.Detail = map[string]any{"size_only": true}
	case r.err != nil:
		m.Outcome, m.Error = store.Failed, r.err.Error()
	}
	s.cfg.Recorder.Record(ctx, m)
}
