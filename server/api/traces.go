package api

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"

	"bessemer/server/trace"
	"bessemer/store"
)

// maxTrace is how many messages of a trace are shown at most.
const maxTrace = 20_000

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// showTrace shows the messages of a trace, of a run, or of a node's latest
// run, by what the path names.
func showTrace(c *call) error {
	if err := c.only("format"); err != nil {
		return err
	}
	id := c.path("trace")
	if traceID.MatchString(id) {
		return c.showTraceByID(id)
	}
	if r, err := c.run1(id); err == nil {
		return c.showRunTrace(r)
	}
	return c.showLatest(id)
}

func showNodeTrace(c *call) error {
	if err := c.only("format"); err != nil {
		return err
	}
	return c.showLatest(c.path("node"))
}

func (c *call) showLatest(node string) error {
	n, err := c.findNode(node)
	if err != nil {
		return err
	}
	runs, err := c.runs(runQuery{node: n.UUID, limit: 1})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		ms, err := c.api.db.LastNodeMessages(n.UUID, maxTrace)
		if err != nil {
			return err
		}
		return c.writeTrace(nil, ms)
	}
	return c.showRunTrace(runs[0])
}

func (c *call) showTraceByID(id string) error {
	var run *store.Run
	err := c.api.db.View(func(tx *store.Tx) error {
		for r, err := range store.Runs.Where(tx, "trace", id) {
			if err != nil {
				return err
			}
			run = r
		}
		return nil
	})
	if err != nil {
		return err
	}
	if run != nil {
		return c.showRunTrace(run)
	}
	ms, err := c.api.db.TraceMessages(id, 0, maxTrace, nil)
	if err != nil {
		return err
	}
	if len(ms) == 0 {
		return &fault{status: http.StatusNotFound, text: "There is no trace " + id, hint: "GET /api/v1/runs lists runs and their traces"}
	}
	return c.writeTrace(nil, ms)
}

// showRunTrace shows a run with what a client did to prepare it: its calls on
// the node since the run before, which were made before this run existed.
func (c *call) showRunTrace(r *store.Run) error {
	before, err := c.runs(runQuery{node: r.Node, before: r.ID, limit: 1})
	if err != nil {
		return err
	}
	var last *store.Run
	if len(before) > 0 {
		last = before[0]
	}
	ms, err := c.api.db.NodeMessages(r.Node, 0, maxTrace, ofRun(r, last))
	if err != nil {
		return err
	}
	return c.writeTrace(r, ms)
}

// ofRun picks the messages of a run, and of a client's calls between the end
// of the run before and its own.
func ofRun(r, before *store.Run) func(*store.Message) bool {
	return func(m *store.Message) bool {
		prepares := m.Run == 0 && (m.From == store.ClientP || m.To == store.ClientP) &&
			(before == nil || m.Time.After(before.Ended)) && (m.Trace == r.Trace || m.Time.Before(r.Started))
		return m.Run == r.ID || prepares || m.Run == 0 && m.Trace == r.Trace
	}
}

// writeTrace answers with messages and their run, or in the format asked for
// with the messages alone.
func (c *call) writeTrace(r *store.Run, ms []store.Message) error {
	format, ok := c.param("format")
	if !ok {
		out := map[string]any{"messages": orNoneOf(ms)}
		if r != nil {
			out["run"], out["trace"], out["node"] = c.runView(r), r.Trace, r.Node
		}
		c.json(http.StatusOK, out)
		return nil
	}
	var b bytes.Buffer
	if err := trace.Export(&b, format, ms); err != nil {
		return &fault{
			status: http.StatusNotAcceptable, text: "There is no format " + shown(format),
			hint: "formats: " + strings.Join(trace.Formats(), ", "),
		}
	}
	kind := "text/plain; charset=utf-8"
	if format == "json" {
		kind = "application/json"
	}
	c.w.Header().Set("Content-Type", kind)
	_, _ = c.w.Write(b.Bytes())
	return nil
}

func explainNode(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	e, err := c.api.conductor.Explain(c.ctx, n.UUID)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, e)
	return nil
}
