package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneEndingEndsAll(t *testing.T) {
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name string
		run  func(context.Context) error
		want string
	}{
		{"error", func(context.Context) error { return errors.New("port gone") }, "dhcp: port gone"},
		{"no error", func(context.Context) error { return nil }, "dhcp ended by itself"},
		{"panic", func(context.Context) error { panic("oh") }, "dhcp: panic: oh"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := runAll(t.Context(), []component{{"http", wait}, {"dhcp", tt.run}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestStoppingIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runAll(ctx, []component{{"http", func(ctx context.Context) error { <-ctx.Done(); return nil }}})
	if err != nil {
		t.Errorf("got %v", err)
	}
}

func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		calls := 0
		_ = later(20*time.Second, every(10*time.Second, func(context.Context) { calls++ }))(ctx)
		if calls != 2 {
			t.Errorf("got %d calls, want them at 20 s and 30 s", calls)
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		calls := 0
		_ = every(10*time.Second, func(context.Context) { calls++ })(ctx)
		if calls != 4 {
			t.Errorf("got %d calls in 35 s, want 4", calls)
		}
	})
}
