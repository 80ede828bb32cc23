package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A demo that was killed leaves a directory, which the next one removes; those
// of demos that run, or are just beginning, stay.
func TestDemoDirectories(t *testing.T) {
	base := t.TempDir()
	runs, err := newDemoDir(base)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(base, demoPrefix+"killed")
	begins := filepath.Join(base, demoPrefix+"begins")
	other := filepath.Join(base, "other")
	for _, dir := range []string{killed, begins, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{demoLock, "bessemer.db"} {
		if err := os.WriteFile(filepath.Join(killed, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(base, time.Now())
	for dir, want := range map[string]bool{runs.path: true, begins: true, other: true, killed: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: got %v, want it there: %v", filepath.Base(dir), err, want)
		}
	}
	removeStale(base, time.Now().Add(time.Hour))
	if _, err := os.Stat(begins); err == nil {
		t.Error("one that never began is still there")
	}
	if err := runs.remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(base); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
