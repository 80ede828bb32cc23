//go:build linux

package store

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// mapped is how much of mapped files is counted as this process's memory.
func mapped(t *testing.T) (kib int) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(raw)) {
		if n, err := fmt.Sscanf(line, "RssFile: %d kB", &kib); n == 1 && err == nil {
			return kib
		}
	}
	t.Skip("the system does not say")
	return 0
}

// record fills a store with messages.
func record(t *testing.T, db *DB, n int) {
	t.Helper()
	for i := range n {
		db.Record(context.Background(), Message{Node: "n", Run: 1, Trace: "t", Label: fmt.Sprintf("message %d", i), Error: strings.Repeat("x", 500)})
		if i%2000 == 0 {
			if err := db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestTrimGivesMemoryBack(t *testing.T) {
	db := openTest(t, t.TempDir())
	record(t, db, 20000)
	read := func() int {
		ms, err := db.MessagesAfter(0, 30000, func(*Message) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return len(ms)
	}
	before := read()
	full := mapped(t)
	if err := db.space.Trim(); err != nil {
		t.Fatal(err)
	}
	if left := mapped(t); left > full-8<<10 {
		t.Errorf("%d of %d KiB of mapped files are left", left, full)
	}
	if after := read(); after != before || after < 20000 {
		t.Errorf("%d messages, there were %d", after, before)
	}
}

// TestTrimAmongOthers trims while others read and write, and the file grows.
func TestTrimAmongOthers(t *testing.T) {
	db := openTest(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := db.space.Trim(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			if _, err := db.MessagesAfter(0, 100, func(*Message) bool { return true }); err != nil {
				t.Error(err)
				return
			}
		}
	})
	record(t, db, 20000)
	stop()
	wg.Wait()
	if problems, err := db.Check(t.Context()); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
