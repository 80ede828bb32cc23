package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"
)

// What outlives its client must not outlive the appliance.
func TestLastingWorkEndsWithTheAppliance(t *testing.T) {
	ending, end := context.WithCancel(t.Context())
	client, hangUp := context.WithCancel(t.Context())
	c := &call{
		api: &API{Config: Config{Ending: ending}}, w: httptest.NewRecorder(),
		r: httptest.NewRequest("GET", "/v1/nodes/x/validate", nil), ctx: client,
	}
	ctx, cancel := c.lasting(time.Hour)
	defer cancel()
	hangUp()
	if ctx.Err() != nil {
		t.Error("ended with its client")
	}
	end()
	<-ctx.Done()
	if f := c.ended(ctx.Err()); f == nil || f.status != 503 {
		t.Errorf("got %v, want 503", f)
	}
	if f := c.ended(errors.New("a fault")); f != nil {
		t.Errorf("a fault is called the end: %v", f)
	}
}
