package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/store"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A script builds a trace as a real run would record it.
type script struct {
	ms []store.Message
	at time.Time
}

func newScript() *script {
	return &script{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (s *script) add(m store.Message) uint64 {
	m.Seq = uint64(len(s.ms) + 1)
	m.Time = s.at
	m.Trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	m.Node = "11111111-2222-3333-4444-555555555555"
	s.ms = append(s.ms, m)
	return m.Seq
}

func (s *script) ask(from, to store.Participant, label string, d time.Duration) {
	s.answer(s.add(store.Message{From: from, To: to, Kind: store.Request, Label: label}), label, d, "")
}

func (s *script) answer(to uint64, label string, d time.Duration, failure string) {
	q := s.ms[to-1]
	s.at = s.at.Add(d)
	m := store.Message{From: q.To, To: q.From, Kind: store.Reply, Label: label, ReplyTo: to, Dur: d, Outcome: store.OK}
	if failure != "" {
		m.Outcome, m.Error = store.Failed, failure
	}
	s.add(m)
	s.at = s.at.Add(time.Second)
}

func (s *script) self(label string) {
	s.add(store.Message{From: store.Conductor, To: store.Conductor, Kind: store.Self, Label: label})
	s.at = s.at.Add(10 * time.Millisecond)
}

func (s *script) cast(from, to store.Participant, label string) {
	s.add(store.Message{From: from, To: to, Kind: store.Cast, Label: label})
	s.at = s.at.Add(5 * time.Millisecond)
}

// deployed is a direct deploy from the first request to ACTIVE.
func deployed() *script {
	s := newScript()
	ms := time.Millisecond
	s.ask(store.ClientP, store.API, store.LabelSetInstanceInfo, 3*ms)
	s.ask(store.ClientP, store.API, store.LabelValidate, 80*ms)
	s.ask(store.ClientP, store.API, store.LabelPlugVIFs, 4*ms)
	q := s.add(store.Message{From: store.ClientP, To: store.API, Kind: store.Request, Label: store.LabelSetProvisionState})
	s.cast(store.API, store.Conductor, store.LabelDoNodeDeploy)
	s.answer(q, store.LabelSetProvisionState, 5*ms, "")
	s.add(store.Message{
		From: store.Conductor, To: store.Conductor, Kind: store.State, Label: store.LabelProvisionState,
		Detail: map[string]any{"from": "available", "to": "deploying"},
	})
	s.add(store.Message{From: store.Conductor, To: store.Conductor, Kind: store.StepKind, Label: store.LabelStepBegun, Step: "validate"})
	s.self(store.LabelValidate)
	s.ask(store.Conductor, store.HTTPStore, store.LabelStoreConfigDrive, ms)
	s.answer(s.add(store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff, Attempt: 1}),
		store.LabelPowerOff, 30*time.Second, `power off 192.0.2.7: HTTP 503 "busy"`)
	s.answer(s.add(store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerOff, Attempt: 2}),
		store.LabelPowerOff, 2100*ms, "")
	s.ask(store.Conductor, store.DHCP, store.LabelAttachNetwork, ms)
	s.ask(store.Conductor, store.DHCP, store.LabelUpdateDHCP, ms)
	s.self(store.LabelPreparePXE)
	s.ask(store.Conductor, store.BMC, store.LabelBootDevicePXE, 120*ms)
	s.ask(store.Conductor, store.HTTPStore, store.LabelCacheImages, 9*ms)
	s.ask(store.Conductor, store.BMC, store.LabelReboot, 81*ms)
	s.at = s.at.Add(20 * time.Second)
	q = s.add(store.Message{From: store.NodeP, To: store.DHCP, Kind: store.Request, Label: store.LabelDHCPRequest})
	s.answer(q, store.LabelNextServer, ms, "")
	s.ask(store.NodeP, store.Boot, store.LabelFetchBootfile, 200*ms)
	s.ask(store.NodeP, store.Boot, store.LabelFetchKernel, 900*ms)
	s.add(store.Message{From: store.NodeP, To: store.NodeP, Kind: store.Self, Label: store.LabelRunsAgent})
	s.at = s.at.Add(8 * time.Second)
	q = s.add(store.Message{From: store.NodeP, To: store.API, Kind: store.Request, Label: store.LabelLookup})
	s.answer(q, store.LabelPassUUID, 4*ms, "")
	s.heartbeat()
	s.ask(store.Conductor, store.NodeP, store.LabelContinueDeploy, 12*ms)
	s.ask(store.NodeP, store.HTTPStore, store.LabelDownloadImage, 65*time.Second)
	for range 14 {
		s.heartbeat()
		q = s.add(store.Message{From: store.Conductor, To: store.NodeP, Kind: store.Request, Label: store.LabelIsDeployDone})
		s.answer(q, store.LabelStillWorking, 3*ms, "")
		s.at = s.at.Add(4 * time.Second)
	}
	q = s.add(store.Message{From: store.Conductor, To: store.NodeP, Kind: store.Request, Label: store.LabelIsDeployDone})
	s.answer(q, store.LabelDeployDone, 3*ms, "")
	s.add(store.Message{From: store.Conductor, To: store.Conductor, Kind: store.Divider, Label: store.LabelRestarted})
	s.ask(store.Conductor, store.NodeP, store.LabelInstallBootLoader, 700*ms)
	s.ask(store.Conductor, store.DHCP, store.LabelUpdateDHCP, ms)
	s.self(store.LabelPrepareInstance)
	s.ask(store.Conductor, store.BMC, store.LabelBootDeviceDisk, 110*ms)
	s.ask(store.Conductor, store.NodeP, store.LabelCollectLogs, 60*ms)
	s.ask(store.Conductor, store.BMC, store.LabelPowerOff, 3*time.Second)
	s.ask(store.Conductor, store.DHCP, store.LabelDetachNetwork, ms)
	s.ask(store.Conductor, store.DHCP, store.LabelBindTenantPort, ms)
	s.ask(store.Conductor, store.BMC, store.LabelPowerOn, 90*ms)
	s.self(store.LabelMarkActive)
	s.add(store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: store.LabelPowerState})
	return s
}

func (s *script) heartbeat() {
	q := s.add(store.Message{From: store.NodeP, To: store.API, Kind: store.Request, Label: store.LabelHeartbeat})
	s.cast(store.API, store.Conductor, store.LabelHeartbeat)
	s.answer(q, store.LabelHeartbeat, 2*time.Millisecond, "")
}

func TestExportGolden(t *testing.T) {
	for _, format := range Formats() {
		t.Run(format, func(t *testing.T) {
			var b bytes.Buffer
			if err := Export(&b, format, deployed().ms); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "deploy."+format)
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func TestExportOfNothing(t *testing.T) {
	for _, format := range Formats() {
		var b bytes.Buffer
		if err := Export(&b, format, nil); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	var b bytes.Buffer
	if err := Export(&b, "json", nil); err != nil || strings.TrimSpace(b.String()) != "[]" {
		t.Errorf("json of nothing = %q, %v; want []", b.String(), err)
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Export(&bytes.Buffer{}, "svg", nil)
	var fe *FormatError
	if !errors.As(err, &fe) || fe.Format != "svg" {
		t.Fatalf("error = %v, want a FormatError", err)
	}
	for _, f := range Formats() {
		if !strings.Contains(err.Error(), f) {
			t.Errorf("error %q does not name %s", err, f)
		}
	}
}

func TestJSONIsWhatWasRecorded(t *testing.T) {
	var b bytes.Buffer
	if err := Export(&b, "json", deployed().ms); err != nil {
		t.Fatal(err)
	}
	var got []store.Message
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(deployed().ms, got); diff != "" {
		t.Errorf("messages differ (-want +got):\n%s", diff)
	}
}

func TestFold(t *testing.T) {
	s := newScript()
	for range 14 {
		s.heartbeat()
	}
	ls := fold(lines(s.ms))
	if len(ls) != 3 {
		t.Fatalf("%d lines, want 3", len(ls))
	}
	if got, want := ls[0].text(), "Heartbeat ×14 every 1.0 s"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	total := 0
	for _, l := range ls {
		total += l.times
	}
	if total != len(s.ms) {
		t.Errorf("lines stand for %d messages, want %d", total, len(s.ms))
	}
}

func TestFoldKeepsWhatMatters(t *testing.T) {
	s := newScript()
	for i := range 4 {
		failure := ""
		if i == 2 {
			failure = "refused"
		}
		s.answer(s.add(store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: "x"}), "x", time.Second, failure)
	}
	s.add(store.Message{From: store.Conductor, To: store.BMC, Kind: store.Request, Label: "x"})
	failed, pending := 0, 0
	for _, l := range fold(lines(s.ms)) {
		if l.failed {
			failed++
		}
		if l.pending {
			pending++
		}
		if (l.failed || l.pending) && l.times != 1 {
			t.Errorf("folded: %q", l.text())
		}
	}
	if failed != 1 || pending != 1 {
		t.Errorf("%d failed and %d pending lines, want 1 and 1", failed, pending)
	}
}

func TestConformance(t *testing.T) {
	arrows := Conformance(deployed().ms)
	if len(arrows) != 36 {
		t.Fatalf("%d arrows, want seed 000's 36", len(arrows))
	}
	last := uint64(0)
	for _, a := range arrows {
		if !a.Present {
			t.Errorf("arrow %d is absent: %s -> %s %q", a.N, a.From, a.To, a.Label)
		}
		if a.Seq <= last {
			t.Errorf("arrow %d is message %d, after %d", a.N, a.Seq, last)
		}
		last = a.Seq
	}
	if got := deployed().ms[arrows[7].Seq-1]; got.Attempt != 2 {
		t.Errorf("POWER OFF is attempt %d, want the one that did not fail", got.Attempt)
	}
}

func TestConformanceOfPart(t *testing.T) {
	t.Run("a missing message is one absent arrow", func(t *testing.T) {
		for i := range 36 {
			full := deployed().ms
			gone := Conformance(full)[i]
			var ms []store.Message
			for _, m := range full {
				if m.Label != gone.Message && m.Label != gone.Label || m.From != gone.From {
					ms = append(ms, m)
				}
			}
			arrows := Conformance(ms)
			if arrows[i].Present {
				t.Errorf("arrow %d (%s) is present without its message, as message %d %q", i+1, gone.Label, arrows[i].Seq, arrows[i].Message)
			}
		}
	})
	t.Run("a message out of order is misplaced", func(t *testing.T) {
		full := deployed().ms
		arrows := Conformance(full)
		at := arrows[12].Seq // Cache deploy and instance kernel and ramdisk
		full[at-1].Seq = 100000
		got := Conformance(full)[12]
		if got.Present || !got.Misplaced || got.Seq != 100000 {
			t.Errorf("arrow = %+v, want misplaced", got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		for _, a := range Conformance(nil) {
			if a.Present || a.Misplaced || a.Seq != 0 {
				t.Errorf("arrow = %+v", a)
			}
		}
	})
	t.Run("other spellings", func(t *testing.T) {
		for _, label := range []string{"set boot  device: PXE", "Set PXE boot device \nthrough the BMC"} {
			arrows := Conformance([]store.Message{{Seq: 1, From: store.Conductor, To: store.BMC, Kind: store.Request, Label: label}})
			if !arrows[11].Present {
				t.Errorf("%q is not arrow 12", label)
			}
		}
	})
}

func TestLineIsOneOfTheTextFormat(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		m    store.Message
		want string
	}{
		{store.Message{Seq: 1, Time: at, From: store.Conductor, To: store.BMC, Kind: store.Request, Label: "POWER ON"}, "Conductor  → BMC         POWER ON"},
		{store.Message{Seq: 2, Time: at, From: store.BMC, To: store.Conductor, Kind: store.Reply, ReplyTo: 1, Label: "POWER ON", Dur: 2 * time.Millisecond}, "BMC        ⇢ Conductor   POWER ON: ok (2 ms)"},
		{store.Message{Seq: 3, Time: at, Kind: store.StepKind, Label: "Step begun", Step: "power-on"}, "           · Step begun: power-on"},
		{store.Message{Seq: 4, Time: at, From: store.BMC, To: store.Conductor, Kind: store.Reply, ReplyTo: 1, Label: "POWER ON", Error: "no\nroute"}, "BMC        ⇢ Conductor   POWER ON: FAILED: no route"},
	} {
		if got := Line(tt.m); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}
