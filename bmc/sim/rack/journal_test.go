package rack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJournal: it goes on where it was left, also after a torn line, and
// forgets only what is old.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j, err := openJournal(path, Totals{})
	must(t, err)
	must(t, j.add(Event{Kind: Write, Disk: "/dev/sda", Bytes: 10}))
	old := j.sums()
	must(t, j.add(Event{Kind: Write, Disk: "/dev/sda", Bytes: 5}))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"seq":9,"kind":"wri`)
	must(t, err)
	must(t, f.Close())

	if j, err = openJournal(path, old); err != nil {
		t.Fatal(err)
	}
	if s := j.sums(); s.Written["/dev/sda"] != 15 || s.Events != 2 {
		t.Errorf("taken up with %+v", s)
	}
	must(t, j.add(Event{Kind: Off}))
	if es, err := j.events(); err != nil || len(es) != 3 || es[2].Kind != Off {
		t.Errorf("behind a torn line: %+v, %v", es, err)
	}
	const more = 3000
	for range more {
		must(t, j.add(Event{Kind: Hang, Text: strings.Repeat("x", 100)}))
	}
	es, err := j.events()
	must(t, err)
	if last := es[len(es)-1].Seq; last != 3+more || j.sums().Hangs != more || len(es) < 500 {
		t.Errorf("%d events, the last is %d, totals %+v", len(es), last, j.sums())
	}
	for i := range es {
		if es[i].Seq != es[0].Seq+uint64(i) {
			t.Fatalf("event %d has number %d, the first %d", i, es[i].Seq, es[0].Seq)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Size() > maxJournal+1000 {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
}
