package flaw

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCatalogue holds the catalogue to its numbering, and each row to saying
// what it must.
func TestCatalogue(t *testing.T) {
	var want, got []ID
	for _, area := range []struct {
		letter string
		rows   int
	}{{"B", 22}, {"R", 28}, {"V", 14}, {"I", 14}, {"D", 30}, {"N", 11}, {"K", 26}, {"U", 7}, {"A", 12}} {
		for i := range area.rows {
			want = append(want, ID(fmt.Sprintf("%s-%02d", area.letter, i+1)))
		}
	}
	for _, r := range Rows() {
		got = append(got, r.ID)
		if r.Who == "" || r.Does == "" || r.Want == "" {
			t.Errorf("%s says too little: %+v", r.ID, r)
		}
		if r.Status != Flag && r.Note == "" {
			t.Errorf("%s does not say why it has no flag, or where it is tested", r.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
}

func TestFaultText(t *testing.T) {
	for text, want := range map[string]Fault{
		"bmc-hang":                       {Kind: BMCHang},
		"bmc-500:after=2,count=3":        {Kind: BMC500, After: 2, Count: 3},
		"packet-loss:rate=0.3":           {Kind: PacketLoss, Rate: 0.3},
		"disk-error:at=4194304":          {Kind: DiskError, At: 4 << 20},
		"clock-jump:delay=-3h0m0s":       {Kind: ClockJump, Delay: -3 * time.Hour},
		"bmc-slow:rate=1,delay=1m0.001s": {Kind: BMCSlow, Rate: 1, Delay: time.Minute + time.Millisecond},
	} {
		got, err := ParseFault(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v %q, %v", text, got, got.String(), err)
		}
	}
	for _, bad := range []string{"", "bmc", "bmc-500:count", "bmc-500:count=-1", "bmc-500:n=1", "packet-loss:rate=2", "packet-loss:rate=NaN", "disk-error:at=4X"} {
		if f, err := ParseFault(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, f)
		}
	}
	if f, err := ParseFault("disk-error:at=4M"); err != nil || f.At != 4<<20 {
		t.Errorf("4M is %d, %v", f.At, err)
	}
}

func TestHit(t *testing.T) {
	s := NewSet(1)
	s.Inject(Fault{Kind: BMC500, After: 2, Count: 3})
	got := ""
	for range 8 {
		_, hit := s.Hit(BMC500)
		got += map[bool]string{true: "x", false: "."}[hit]
	}
	if got != "..xxx..." || s.Hits(BMC500) != 3 || len(s.Faults()) != 0 {
		t.Errorf("hits %s, %d counted, left %v", got, s.Hits(BMC500), s.Faults())
	}
	if _, hit := (*Set)(nil).Hit(BMC500); hit {
		t.Error("a machine without a set has a fault")
	}
}

// TestSameSeedSameDice is what a run that is repeated with its seed rests on.
func TestSameSeedSameDice(t *testing.T) {
	run := func(seed uint64) (hits string) {
		s := NewSet(seed)
		s.Inject(Fault{Kind: PacketLoss, Rate: 0.5})
		for range 64 {
			_, hit := s.Hit(PacketLoss)
			hits += map[bool]string{true: "x", false: "."}[hit]
		}
		return hits
	}
	first, again, other := run(7), run(7), run(8)
	if first != again || first == other {
		t.Error("the seed does not fix the dice")
	}
}
