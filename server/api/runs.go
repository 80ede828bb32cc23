package api

import (
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"bessemer/store"
)

// runView is a run without what steps keep for themselves: arguments and data
// may hold secrets, and a stack is for the log. The step that runs now is
// shown although it is not saved yet.
func (c *call) runView(r *store.Run) *store.Run {
	v := *r
	v.Args, v.Data, v.Ramdisk, v.Stack = nil, nil, nil, ""
	v.Error, v.WaitingFor = maskURL(v.Error), maskURL(v.WaitingFor)
	if id, s, ok := c.api.conductor.RunningStep(r.Node); ok && id == r.ID && s.Name == r.Step {
		v.Steps = withStep(v.Steps, s)
		if line := c.api.conductor.WaitingFor(r.Node); line != "" {
			v.WaitingFor = line
		}
	}
	v.Steps = slices.Clone(v.Steps)
	for i := range v.Steps {
		v.Steps[i].Error = maskURL(v.Steps[i].Error)
	}
	return &v
}

// withStep returns steps with s in the place of the one of its name, or at
// the end.
func withStep(steps []store.RunStep, s store.RunStep) []store.RunStep {
	steps = slices.Clone(steps)
	i := slices.IndexFunc(steps, func(o store.RunStep) bool { return o.Name == s.Name })
	if i < 0 {
		return append(steps, s)
	}
	steps[i] = s
	return steps
}

// listRuns lists runs, the newest first; ?node= those of one node, ?outcome=
// those that ended so, ?before= those older than a run.
func listRuns(c *call) error {
	if err := c.only("node", "limit", "outcome", "before"); err != nil {
		return err
	}
	limit, err := c.number("limit", 100)
	if err != nil {
		return err
	}
	before, err := c.number("before", 0)
	if err != nil {
		return err
	}
	q := runQuery{before: uint64(before), limit: max(1, min(limit, maxLimit))}
	outcome, _ := c.param("outcome")
	q.outcome = store.Outcome(outcome)
	if ident, ok := c.param("node"); ok {
		n, err := c.findNode(ident)
		if err != nil {
			return err
		}
		q.node = n.UUID
	}
	runs, err := c.runs(q)
	if err != nil {
		return err
	}
	for i, r := range runs {
		runs[i] = c.runView(r)
	}
	c.json(http.StatusOK, map[string]any{"runs": orNoneOf(runs)})
	return nil
}

// A runQuery says which runs are wanted; zero values want all.
type runQuery struct {
	node    string // UUID
	outcome store.Outcome
	before  uint64
	limit   int
}

// runs are the runs that are asked for, the newest first.
func (c *call) runs(q runQuery) ([]*store.Run, error) {
	var runs []*store.Run
	err := c.api.db.View(func(tx *store.Tx) error {
		for r, err := range q.scan(tx) {
			if err != nil {
				return err
			}
			if (q.outcome == "" || r.Outcome == q.outcome) && (q.node == "" || r.Node == q.node) {
				runs = append(runs, r)
			}
			if q.limit > 0 && len(runs) == q.limit {
				break
			}
		}
		return nil
	})
	return runs, err
}

// scan yields no more runs than it must: there may be many old ones.
func (q runQuery) scan(tx *store.Tx) iter.Seq2[*store.Run, error] {
	end := ""
	if q.before > 0 {
		end = store.RunKey(q.before)
	}
	switch {
	case q.node != "":
		return store.Runs.WhereBack(tx, "node", q.node, end)
	case q.outcome == store.Running:
		return store.Runs.WhereBack(tx, "open", "yes", end)
	}
	return store.Runs.Back(tx, end)
}

func orNoneOf[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// number reads a query parameter that is a number from 0 on.
func (c *call) number(name string, def int) (int, error) {
	s, ok := c.param(name)
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("Invalid value %s for %s: it must be a number from 0 on", shown(s), name)
	}
	return int(n), nil
}

func showRun(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	r, err := c.run1(c.path("run"))
	if err != nil {
		return err
	}
	c.json(http.StatusOK, c.runView(r))
	return nil
}

func (c *call) run1(ident string) (*store.Run, error) {
	id, err := strconv.ParseUint(ident, 10, 64)
	if err != nil {
		return nil, noRun(ident)
	}
	var r *store.Run
	err = c.api.db.View(func(tx *store.Tx) (err error) {
		r, err = store.Runs.Get(tx, store.RunKey(id))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, noRun(ident)
	}
	return r, err
}

func noRun(ident string) error {
	return &fault{status: http.StatusNotFound, text: "There is no run " + printable(ident), hint: "GET /api/v1/runs lists them"}
}
