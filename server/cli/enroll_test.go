package cli

import (
	"errors"
	"strings"
	"testing"
)

// Enrolling goes on with what it has begun, and leaves alone what people do.
func TestNextVerb(t *testing.T) {
	tests := []struct {
		state    string
		newcomer bool
		want     string
	}{
		{"enroll", true, "manage"},
		{"verifying", true, "manage"},
		{"manageable", true, "provide"},
		{"cleaning", true, "provide"},
		{"available", true, ""},
		{"enroll", false, ""},
		{"manageable", false, ""},
		{"active", false, ""},
	}
	for _, tt := range tests {
		n := &nodeNow{State: tt.state, Extra: map[string]any{}}
		if tt.newcomer {
			n.Extra[newcomer] = true
		}
		if got := nextVerb(n); got != tt.want {
			t.Errorf("%s, newcomer %v: got %q, want %q", tt.state, tt.newcomer, got, tt.want)
		}
	}
}

func TestFewErrors(t *testing.T) {
	if few(nil) != nil {
		t.Error("no errors are one")
	}
	var errs []error
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		errs = append(errs, errors.New(name))
	}
	if got := few(errs).Error(); got != "a\nb\nc\nand 2 more like these" {
		t.Errorf("got %q", got)
	}
	if got := few(errs[:2]).Error(); strings.Contains(got, "more") {
		t.Errorf("got %q", got)
	}
}
