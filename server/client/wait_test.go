package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers gives the next answer for each request: a provision state, "" for
// no answer, or a number for a status; the last one again and again.
type answers struct {
	list []string
	n    int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	text := a.list[min(a.n, len(a.list)-1)]
	a.n++
	status := http.StatusOK
	switch text {
	case "":
		return nil, errors.New("connection refused")
	case "503":
		status = http.StatusServiceUnavailable
	case "404":
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(`{"provision_state": "` + text + `"}`))}, nil
}

func TestWaitState(t *testing.T) {
	tests := []struct {
		name    string
		answers []string
		state   any
		fails   bool
		took    time.Duration // at least
	}{
		{"there already", []string{"active"}, "active", false, 0},
		{"comes to rest", []string{"deploying", "deploying", "active"}, "active", false, 100 * time.Millisecond},
		{"the appliance is restarted meanwhile", []string{"deploying", "", "", "503", "", "active"}, "active", false, 200 * time.Millisecond},
		{"the appliance stays away", []string{"deploying", ""}, "deploying", true, Patience},
		{"the node is deleted meanwhile", []string{"deploying", "404"}, "deploying", true, 0},
		{"it never rests", []string{"deploying"}, "deploying", true, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{Base: "http://appliance", HTTP: &http.Client{Transport: &answers{list: tt.answers}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun := time.Now()
				n, err := c.WaitState(ctx, "n1", func(n map[string]any) bool { return n["provision_state"] == "active" }, nil)
				if (err != nil) != tt.fails || n["provision_state"] != tt.state {
					t.Errorf("got %v, %v; want %v, failure %v", n, err, tt.state, tt.fails)
				}
				if took := time.Since(begun); took < tt.took {
					t.Errorf("took %v, want %v or more", took, tt.took)
				}
			})
		})
	}
}
