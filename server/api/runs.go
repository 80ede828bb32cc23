package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"bessemer/store"
)

// runView is a run without what steps keep for themselves: arguments and data
// may hold secrets, and a stack is for the log.
func runView(r *store.Run) *store.Run {
	v := *r
	v.Args, v.Data, v.Ramdisk, v.Stack = nil, nil, nil, ""
	v.Error = maskURL(v.Error)
	return &v
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
	outcome, _ := c.param("outcome")
	keep := func(r *store.Run) bool {
		return (outcome == "" || string(r.Outcome) == outcome) && (before == 0 || r.ID < uint64(before))
	}
	runs, err := c.runs(keep)
	if err != nil {
		return err
	}
	slices.Reverse(runs)
	runs = runs[:min(len(runs), max(1, min(limit, maxLimit)))]
	for i, r := range runs {
		runs[i] = runView(r)
	}
	c.json(http.StatusOK, map[string]any{"runs": orNoneOf(runs)})
	return nil
}

// runs are all runs, or those of the node that ?node= names, in order.
func (c *call) runs(keep func(*store.Run) bool) ([]*store.Run, error) {
	ident, ok := c.param("node")
	if !ok {
		return collect(c, store.Runs, keep)
	}
	n, err := c.findNode(ident)
	if err != nil {
		return nil, err
	}
	return c.runsOf(n.UUID, keep)
}

func (c *call) runsOf(node string, keep func(*store.Run) bool) ([]*store.Run, error) {
	var runs []*store.Run
	err := c.api.db.View(func(tx *store.Tx) error {
		for r, err := range store.Runs.Where(tx, "node", node) {
			if err != nil {
				return err
			}
			if keep == nil || keep(r) {
				runs = append(runs, r)
			}
		}
		return nil
	})
	return runs, err
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
	c.json(http.StatusOK, runView(r))
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
