package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/rack"
)

// TestMachinesWithQuirks takes a rack of machines, each with something wrong
// about it, through the whole life of a machine at the same time.
func TestMachinesWithQuirks(t *testing.T) {
	if testing.Short() {
		t.Skip("a rack of machines takes a minute")
	}
	if raceDetector {
		t.Skip("a rack of machines takes all of the processors, and three minutes, with the race detector: make test runs it without")
	}
	s := newSite(t)
	trials := slices.Concat(vendorTrials, faultTrials, quirkTrials) // who takes longest first
	lives := s.place(t, trials)
	errs := make([]error, len(lives))
	var group sync.WaitGroup
	for i, l := range lives {
		group.Go(func() {
			begun := time.Now()
			errs[i] = l.live(t.Context())
			l.took = time.Since(begun)
		})
	}
	group.Wait()
	passed := 0
	on := map[flaw.ID]bool{}
	for i, l := range lives {
		t.Run(l.title(), func(t *testing.T) {
			if errs[i] != nil {
				t.Errorf("%v\nreached:%s\n%s", errs[i], l.steps, describe(l.m))
			}
		})
		if errs[i] == nil {
			passed++
		}
		for _, id := range l.quirks {
			on[id] = true
		}
	}
	for _, line := range s.log.with("panic", "a fault of the appliance") {
		t.Errorf("the appliance logged: %s", line)
	}
	slices.SortFunc(lives, func(a, b *life) int { return cmp.Compare(b.took, a.took) })
	for _, l := range lives[:5] {
		t.Logf("took longest: %s, %.1f s", l.title(), l.took.Seconds())
	}
	t.Logf("machines %d, passed %d; quirks on %d, faults %d; seed %d", len(lives), passed, len(on), len(faultTrials), siteSeed)
}

// title is a trial's name.
func (tr trial) title() string {
	var words []string
	for _, id := range tr.quirks {
		words = append(words, string(id))
	}
	name := strings.Join(words, " ")
	switch {
	case tr.name != "":
		return tr.name
	case tr.fault != "":
		name = tr.fault
	}
	if tr.ipmi {
		return name + " by IPMI"
	}
	return name
}

// place puts the machines of trials into the rack, in which every second
// controller speaks IPMI.
func (s *site) place(t *testing.T, trials []trial) (lives []*life) {
	t.Helper()
	var byProtocol [2][]trial
	for _, tr := range trials {
		i := 0
		if tr.ipmi {
			i = 1
		}
		byProtocol[i] = append(byProtocol[i], tr)
	}
	for n := 0; len(byProtocol[0])+len(byProtocol[1]) > 0; n++ {
		var tr trial
		next := &byProtocol[n%2]
		used := len(*next) > 0
		if used {
			tr, *next = (*next)[0], (*next)[1:]
		}
		if tr.profile == "" {
			tr.profile = "tiny"
		}
		m := s.add(t, tr.profile)
		if slices.Contains(tr.quirks, "R-15") { // a minute and a half, which is longer than anybody waits
			m.Controller().Pace = 1.2 * siteCall.Minutes() / 1.5
		}
		if used {
			lives = append(lives, &life{site: s, trial: tr, m: m})
		}
	}
	return lives
}

func (s *site) add(t *testing.T, profile string) *rack.Machine {
	t.Helper()
	added, err := s.rack.Add(1, profile)
	if err != nil {
		t.Fatal(fmt.Errorf("add a machine: %w", err))
	}
	return added[0]
}

// TestEveryFlagIsTried holds the table of trials against the catalogue: every
// quirk with a flag is tried over the whole rack and by the tests of a part,
// and so is every kind of fault over the rack.
func TestEveryFlagIsTried(t *testing.T) {
	tried, parts := map[flaw.ID]bool{}, namedByParts(t)
	for _, tr := range quirkTrials {
		for _, id := range tr.quirks {
			tried[id] = true
		}
	}
	for _, row := range flaw.Rows() {
		flagged := row.Status == flaw.Flag
		if tried[row.ID] != flagged {
			t.Errorf("%s is a %s; it is tried over the rack: %v", row.ID, row.Status, tried[row.ID])
		}
		if flagged && !parts[row.ID] {
			t.Errorf("%s is a flag, and no test below bmc names it", row.ID)
		}
	}
	for _, tr := range vendorTrials {
		for _, id := range tr.quirks {
			if !tried[id] {
				t.Errorf("%s has %s, which is no flag", tr.name, id)
			}
		}
	}
	kinds := map[flaw.Kind]bool{}
	for _, tr := range faultTrials {
		f, err := flaw.ParseFault(tr.fault)
		if err != nil {
			t.Error(err)
		}
		kinds[f.Kind] = true
	}
	for _, k := range flaw.Kinds() {
		if !kinds[k] {
			t.Errorf("no machine has the fault %s", k)
		}
	}
}

// namedByParts returns the quirks whose ids stand as texts in the tests of the
// simulated machine's parts and of the drivers.
func namedByParts(t *testing.T) map[flaw.ID]bool {
	t.Helper()
	named := map[flaw.ID]bool{}
	err := filepath.WalkDir("bmc", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, filepath.Join("bmc", "sim", "flaw")) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value) // the parser has read it
				named[flaw.ID(text)] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return named
}
