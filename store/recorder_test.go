package store_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/store"
	"bessemer/store/storetest"
)

func message(label string) store.Message {
	return store.Message{From: store.Conductor, To: store.BMC, Kind: store.Cast, Label: label}
}

func TestRecord(t *testing.T) {
	db := storetest.Open(t)
	ctx := store.WithScope(t.Context(), store.Scope{Trace: "t1", Node: "n1", Run: 7, Step: "s"})
	for i := range 10 {
		if seq := db.Record(ctx, message(fmt.Sprint(i))); seq != uint64(i+1) {
			t.Errorf("number = %d, want %d", seq, i+1)
		}
		if i == 4 {
			if err := db.Flush(); err != nil { // half on the disk, half in memory
				t.Fatal(err)
			}
		}
		other := message("other")
		other.Trace, other.Node = "t2", "n2"
		if i == 9 {
			db.Record(t.Context(), other)
		}
	}
	for _, tt := range []struct {
		name string
		get  func() ([]store.Message, error)
		want []uint64
	}{
		{"all", func() ([]store.Message, error) { return db.MessagesAfter(0, 0, nil) }, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"after", func() ([]store.Message, error) { return db.MessagesAfter(3, 0, nil) }, []uint64{4, 5, 6, 7, 8, 9, 10, 11}},
		{"limit on the disk", func() ([]store.Message, error) { return db.MessagesAfter(0, 2, nil) }, []uint64{1, 2}},
		{"limit in memory", func() ([]store.Message, error) { return db.MessagesAfter(3, 4, nil) }, []uint64{4, 5, 6, 7}},
		{"keep", func() ([]store.Message, error) {
			return db.MessagesAfter(0, 0, func(m *store.Message) bool { return m.Label == "2" || m.Label == "8" })
		}, []uint64{3, 9}},
		{"behind the end", func() ([]store.Message, error) { return db.MessagesAfter(99, 0, nil) }, nil},
		{"behind every end", func() ([]store.Message, error) { return db.MessagesAfter(math.MaxUint64, 0, nil) }, nil},
		{"trace", func() ([]store.Message, error) { return db.TraceMessages("t1", 4, 0, nil) }, []uint64{5, 6, 7, 8, 9, 10}},
		{"trace with a limit", func() ([]store.Message, error) { return db.TraceMessages("t1", 0, 6, nil) }, []uint64{1, 2, 3, 4, 5, 6}},
		{"node", func() ([]store.Message, error) { return db.NodeMessages("n2", 0, 0, nil) }, []uint64{11}},
		{"no such node", func() ([]store.Message, error) { return db.NodeMessages("n3", 0, 0, nil) }, nil},
		{"last of a node", func() ([]store.Message, error) { return db.LastNodeMessages("n1", 7) }, []uint64{4, 5, 6, 7, 8, 9, 10}},
		{"last in memory", func() ([]store.Message, error) { return db.LastNodeMessages("n1", 2) }, []uint64{9, 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ms, err := tt.get()
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for _, m := range ms {
				got = append(got, m.Seq)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("numbers = %v, want %v", got, tt.want)
			}
		})
	}
	ms, err := db.MessagesAfter(0, 1, nil)
	if err != nil || ms[0].Trace != "t1" || ms[0].Node != "n1" || ms[0].Run != 7 || ms[0].Step != "s" || ms[0].Time.IsZero() {
		t.Errorf("first message = %+v, %v", ms, err)
	}
}

// TestWriteBehind holds that messages reach the disk soon without anyone
// asking, and that the writer sleeps when there is nothing to do.
func TestWriteBehind(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db := storetest.OpenDir(t, dir)
		begun := time.Now()
		db.Record(t.Context(), message("x"))
		if waiting, _, _ := db.RecorderState(); waiting != 1 {
			t.Errorf("%d messages wait, want 1", waiting)
		}
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		if waiting, lost, err := db.RecorderState(); waiting != 0 || lost != 0 || err != nil {
			t.Errorf("after %v: %d wait, %d lost, %v", time.Since(begun), waiting, lost, err)
		}
	})
}

// TestNumbersNeverComeAgain holds that message numbers go on after a restart,
// without a gap after a clean one.
func TestNumbersNeverComeAgain(t *testing.T) {
	dir := t.TempDir()
	db := storetest.OpenDir(t, dir)
	for range 3 {
		db.Record(t.Context(), message("x"))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = storetest.OpenDir(t, dir)
	if seq := db.Record(t.Context(), message("x")); seq != 4 {
		t.Errorf("number = %d, want 4", seq)
	}
	if _, err := db.Prune(t.Context(), store.Retention{Age: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = storetest.OpenDir(t, dir)
	if ms, err := db.MessagesAfter(0, 0, nil); err != nil || len(ms) > 1 {
		t.Errorf("%d messages after pruning, %v", len(ms), err)
	}
	if seq := db.Record(t.Context(), message("x")); seq != 5 {
		t.Errorf("number after all were pruned = %d, want 5", seq)
	}
}

func TestRecordTakesAnything(t *testing.T) {
	db := storetest.Open(t)
	m := message(strings.Repeat("l", 10_000))
	m.Trace, m.Node = "a\x00b", strings.Repeat("n", 10_000)
	m.Error = strings.Repeat("e", 100_000)
	m.Detail = map[string]any{"f": math.NaN(), "c": make(chan int)}
	db.Record(t.Context(), m)
	m = message("large detail")
	m.Detail = map[string]any{"x": strings.Repeat("x", 1<<20)}
	db.Record(t.Context(), m)
	m = message("strange time")
	m.Time = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	db.Record(t.Context(), m)
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	ms, err := db.MessagesAfter(0, 0, nil)
	if err != nil || len(ms) != 3 {
		t.Fatalf("%d messages, %v; want 3", len(ms), err)
	}
	if m := ms[0]; m.Trace != "" || m.Node != "" || len(m.Label) > 300 || len(m.Error) > 5000 || len(m.Detail) != 1 {
		t.Errorf("message = %.300v", m)
	}
	if len(fmt.Sprint(ms[1].Detail)) > 1000 {
		t.Error("a detail of a megabyte was kept")
	}
}

func TestDetailIsTheRecordersOwn(t *testing.T) {
	db := storetest.Open(t)
	m := message("x")
	m.Detail = map[string]any{"a": "before"}
	db.Record(t.Context(), m)
	m.Detail["a"] = "after"
	ms, err := db.MessagesAfter(0, 0, nil)
	if err != nil || ms[0].Detail["a"] != "before" {
		t.Errorf("detail = %v, %v", ms[0].Detail, err)
	}
}

// TestFollow holds that a follower sees every message once and in order, while
// many record and the disk is written.
func TestFollow(t *testing.T) {
	db := storetest.Open(t)
	notify := db.Notify(t.Context())
	const workers, each = 8, 200
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range each {
				db.Record(t.Context(), message("x"))
				if i%20 == 0 {
					if err := db.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for last := uint64(0); last < workers*each; {
		<-notify
		ms, err := db.MessagesAfter(last, 50, nil)
		for len(ms) > 0 && err == nil {
			for _, m := range ms {
				if m.Seq != last+1 {
					t.Fatalf("message %d after %d", m.Seq, last)
				}
				last = m.Seq
			}
			ms, err = db.MessagesAfter(last, 50, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestSend(t *testing.T) {
	db := storetest.Open(t)
	reply := store.Send(t.Context(), db, store.Message{From: store.Conductor, To: store.BMC, Label: store.LabelPowerOff})
	reply(errors.New("no answer"), nil)
	ms, err := db.MessagesAfter(0, 0, nil)
	if err != nil || len(ms) != 2 || ms[1].ReplyTo != ms[0].Seq || ms[1].Outcome != store.Failed || ms[0].Kind != store.Request {
		t.Errorf("messages = %+v, %v", ms, err)
	}
}

func TestPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Open(t)
		run := func(id uint64, o store.Outcome, age time.Duration) {
			err := db.Update(func(tx *store.Tx) error {
				r := &store.Run{ID: id, Node: "n", Trace: fmt.Sprint(id), Outcome: o}
				if o != store.Running {
					r.Ended = time.Now().Add(-age)
				}
				return store.Runs.Put(tx, r)
			})
			if err != nil {
				t.Fatal(err)
			}
			m := message(fmt.Sprint("run ", id))
			m.Run, m.Node, m.Time = id, "n", time.Now().Add(-age)
			db.Record(t.Context(), m)
		}
		day := 24 * time.Hour
		run(1, store.OK, 50*day)
		run(2, store.Failed, 50*day)
		run(3, store.Failed, 500*day)
		run(4, store.Running, 500*day)
		for id := range uint64(4) {
			run(10+id, store.OK, time.Duration(10-id)*time.Hour)
		}
		for i := range 5 {
			m := message(fmt.Sprint("loose ", i))
			m.Node, m.Time = "n", time.Now().Add(time.Duration(i-5)*time.Hour)
			db.Record(t.Context(), m)
		}
		old := message("old")
		old.Time = time.Now().Add(-60 * day)
		db.Record(t.Context(), old)

		got, err := db.Prune(t.Context(), store.Retention{Age: 30 * day, FailedAge: 90 * day, Runs: 3, Messages: 2})
		if err != nil {
			t.Fatal(err)
		}
		// Gone: run 1 (old), 3 (old for a failed one), 10 (fourth of the node);
		// their messages, three loose ones, and the old one.
		if want := (store.Pruned{Runs: 3, Messages: 7}); got != want {
			t.Errorf("pruned = %+v, want %+v", got, want)
		}
		var labels []string
		ms, err := db.MessagesAfter(0, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			labels = append(labels, m.Label)
		}
		if want := []string{"run 2", "run 4", "run 11", "run 12", "run 13", "loose 3", "loose 4"}; !slices.Equal(labels, want) {
			t.Errorf("left = %q, want %q", labels, want)
		}
		if again, err := db.Prune(t.Context(), store.Retention{Age: 30 * day, FailedAge: 90 * day, Runs: 3, Messages: 2}); err != nil || again != (store.Pruned{}) {
			t.Errorf("pruned again = %+v, %v", again, err)
		}
		if kept, err := db.Prune(t.Context(), store.Retention{}); err != nil || kept != (store.Pruned{}) {
			t.Errorf("pruned with no limits = %+v, %v", kept, err)
		}
	})
}

func TestPruneMany(t *testing.T) {
	db := storetest.Open(t)
	for i := range 3500 {
		m := message(fmt.Sprint(i))
		m.Node = "n"
		db.Record(t.Context(), m)
	}
	got, err := db.Prune(t.Context(), store.Retention{Messages: 10})
	if err != nil || got.Messages != 3490 {
		t.Errorf("pruned = %+v, %v", got, err)
	}
	ms, err := db.LastNodeMessages("n", 100)
	if err != nil || len(ms) != 10 || ms[0].Label != "3490" {
		t.Errorf("%d left, %v", len(ms), err)
	}
}
