package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bessemer/bmc/sim/hardware"
)

func TestParseTurns(t *testing.T) {
	tests := []struct{ text, off, want string }{
		{"+I-04,-I-06", "", "[I-04] [I-06]"},
		{"i-04", "", "[I-04] []"},
		{"", "I-06, I-04", "[] [I-06 I-04]"},
		{"+I-04", "I-06", "[I-04] [I-06]"},
		{"", "", "no quirk"},
		{",", "", "no quirk"},
		{"+X-01", "", "X-01"},
		{"", "X-01", "X-01"},
	}
	for _, tt := range tests {
		on, off, err := parseTurns(tt.text, tt.off)
		got := fmt.Sprint(on, off)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != tt.want || err != nil && !strings.Contains(got, tt.want) {
			t.Errorf("%q, off %q: got %s, want %s", tt.text, tt.off, got, tt.want)
		}
	}
}

func TestWithoutDetach(t *testing.T) {
	got := withoutDetach([]string{"sim", "up", "4", "--detach", "--bmc", "ipmi", "-detach=true"})
	if want := []string{"sim", "up", "4", "--bmc", "ipmi"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestDisksText(t *testing.T) {
	got := disksText([]hardware.Disk{{Size: 240e9}, {Size: 960e9}, {Size: 960e9}})
	if got != "240 GB, 2 × 960 GB" {
		t.Errorf("got %s", got)
	}
}
