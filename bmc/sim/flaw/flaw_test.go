package flaw

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// TestFlagsAreObeyed holds the catalogue to the sources of the simulated
// machine: what they ask for has a flag, and each flag is asked for.
func TestFlagsAreObeyed(t *testing.T) {
	asked := map[ID]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join("..", "flaw") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value) // the parser has read it
				asked[ID(text)] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range early {
		if r, ok := Find(id); !ok || r.Status == Flag {
			t.Errorf("%s is a %s, and among those that have a flag early", id, r.Status)
		}
	}
	for _, r := range Rows() {
		if r.Flagged() != asked[r.ID] || HasFlag(r.ID) != asked[r.ID] {
			t.Errorf("%s is a %s, has a flag %v; the simulated machine asks for it: %v", r.ID, r.Status, r.Flagged(), asked[r.ID])
		}
	}
}

func TestParseIDs(t *testing.T) {
	if ids, err := ParseIDs("b-02, V-01,R-06"); err != nil || !slices.Equal(ids, []ID{"B-02", "V-01", "R-06"}) {
		t.Errorf("read %v, %v", ids, err)
	}
	if _, err := ParseIDs("B-02,B-19,X-01"); err == nil || !strings.Contains(err.Error(), "B-19, X-01") {
		t.Errorf("read ids without a flag: %v", err)
	}
}

func TestFaultText(t *testing.T) {
	for text, want := range map[string]Fault{
		"bmc-hang":                       {Kind: BMCHang},
		"bmc-500:after=2,count=3":        {Kind: BMC500, After: 2, Count: 3},
		"packet-loss:rate=0.3":           {Kind: PacketLoss, Rate: 0.3},
		"disk-error:at=4194304":          {Kind: DiskError, At: 4 << 20},
		"disk-error:at=5368709120":       {Kind: DiskError, At: 5 << 30},
		"clock-jump:delay=-3h0m0s":       {Kind: ClockJump, Delay: -3 * time.Hour},
		"bmc-slow:rate=1,delay=1m0.001s": {Kind: BMCSlow, Rate: 1, Delay: time.Minute + time.Millisecond},
	} {
		got, err := ParseFault(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v %q, %v", text, got, got.String(), err)
		}
	}
	for _, bad := range []string{"", "bmc", "bmc-500:count", "bmc-500:count=-1", "bmc-500:n=1", "packet-loss:rate=2", "packet-loss:rate=NaN", "disk-error:at=4X", "disk-error:at=9223372036854775808", "disk-error:at=9007199254740992K"} {
		if f, err := ParseFault(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, f)
		}
	}
	for text, want := range map[string]int64{"4M": 4 << 20, "5G": 5 << 30} {
		f, err := ParseFault("disk-error:at=" + text)
		if err != nil || f.At != want {
			t.Errorf("%s is %d, %v", text, f.At, err)
		}
		if again, err := ParseFault(f.String()); err != nil || again != f { // a rack reads what a client has read
			t.Errorf("%s read again: %+v, %v", f, again, err)
		}
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

// TestSameSeedSameDice is what a run that is repeated with its seed rests on:
// the order in which the parts of a machine are at work changes nothing.
func TestSameSeedSameDice(t *testing.T) {
	run := func(seed uint64, others int) (hits string) {
		s := NewSet(seed)
		s.Inject(Fault{Kind: PacketLoss, Rate: 0.5})
		s.Inject(Fault{Kind: BMC500, Rate: 0.5})
		for range 64 {
			for range others {
				s.Hit(BMC500)
			}
			_, hit := s.Hit(PacketLoss)
			hits += map[bool]string{true: "x", false: "."}[hit]
		}
		return hits
	}
	first, again, other := run(7, 0), run(7, 3), run(8, 0)
	if first != again || first == other {
		t.Error("the seed does not fix the dice")
	}
}
