//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bessemer/server/trace"
	"bessemer/store"
)

// checkConformance compares the messages of the node's last run, and of what a
// client did before it, with the sequence of a direct deploy that the product
// is made for: every one of its arrows was really sent, in its place.
func (n *node) checkConformance(t *testing.T) {
	t.Helper()
	var got struct{ Messages []store.Message }
	n.call(t, http.MethodGet, "/api/v1/nodes/"+n.name+"/trace", nil, &got)
	arrows := trace.Conformance(got.Messages)
	present := 0
	var list strings.Builder
	for _, a := range arrows {
		what := "ABSENT"
		switch {
		case a.Present:
			present++
			what = fmt.Sprintf("message %d", a.Seq)
		case a.Misplaced:
			what = fmt.Sprintf("MISPLACED, message %d", a.Seq)
		}
		fmt.Fprintf(&list, "%3d  %-9s -> %-9s  %-50s %s\n", a.N, a.From, a.To, a.Label, what)
	}
	t.Logf("%s: %d of %d arrows of the sequence present:\n%s", n.name, present, len(arrows), &list)
	if present != len(arrows) || len(arrows) == 0 {
		t.Errorf("%s: %d arrows of the sequence are not in its trace", n.name, len(arrows)-present)
	}
}
