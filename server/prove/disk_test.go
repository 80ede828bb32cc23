package prove

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bessemer/store"
)

// A ledger holds what the appliance has acknowledged.
type ledger struct {
	mu    sync.Mutex
	nodes map[string]string // name -> the value last acknowledged
	maybe map[string]string // name -> a value of which it is not known
}

// fill has four clients create nodes and change them, with so many writes of
// some size each, until each of them was refused limit times. What is refused must be said clearly.
func (l *ledger) fill(v *verdict, a *appliance, writes, size, limit int, refusals ...int) (acknowledged, refused int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for client := range 4 {
		wg.Go(func() {
			for n, left := 0, limit; left > 0 && n < writes; n++ {
				name := fmt.Sprintf("c%d-n%d-%d", client, n%5, size)
				r := l.write(v.t.Context(), a, name, fmt.Sprintf("%d-%s", n, strings.Repeat("x", size)))
				mu.Lock()
				switch {
				case r.ok():
					acknowledged++
				case r.status == http.StatusConflict: // created by a request whose answer was a failure
				default:
					refused++
					left--
					if !clear(r, refusals) {
						v.violated("an unclear refusal: %s", r)
						left = 0
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acknowledged, refused
}

// clear says whether a refusal has one of the statuses, and says what to do.
func clear(r answer, statuses []int) bool {
	for _, s := range statuses {
		if r.status == s && len(r.body) > 0 && !bytes.Contains(r.body, []byte("Internal error")) {
			return true
		}
	}
	return false
}

// write creates a node, or gives it another value.
func (l *ledger) write(ctx context.Context, a *appliance, name, value string) answer {
	l.mu.Lock()
	_, known := l.nodes[name]
	l.mu.Unlock()
	extra := map[string]any{"value": value}
	var r answer
	if known {
		r = a.once(ctx, http.MethodPatch, "/v1/nodes/"+name, set("/extra", extra))
	} else {
		r = a.once(ctx, http.MethodPost, "/v1/nodes", map[string]any{"name": name, "driver": "fake-hardware", "extra": extra})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.ok():
		l.nodes[name] = value
		delete(l.maybe, name)
	case r.status == http.StatusConflict:
		l.nodes[name] = l.maybe[name]
	default:
		l.maybe[name] = value
	}
	return r
}

// check holds what the appliance shows against what it has acknowledged.
func (l *ledger) check(v *verdict, a *appliance) {
	v.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, want := range l.nodes {
		got, _ := a.node(name).Extra["value"].(string)
		if maybe, open := l.maybe[name]; got != want && (!open || got != maybe) {
			v.violated("node %s has %.20q, but %.20q was acknowledged", name, got, want)
		}
	}
}

func newLedger() *ledger { return &ledger{nodes: map[string]string{}, maybe: map[string]string{}} }

// TestFullDisk fills the disk below the store and the images for real.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	v := prove(t, "disk-full")
	dir := smallDisk(t, 128)
	a := newAppliance(t, dir, order{})
	l := newLedger()
	before, _ := l.fill(v, a, 50, 1000, 1)
	ballast := filepath.Join(dir, "ballast")
	fillUp(t, ballast)
	stored, refused := l.fill(v, a, 400, 4000, 10, http.StatusInsufficientStorage)
	if refused == 0 {
		v.violated("a full disk refused nothing")
	}
	v.count(before+stored, refused, refused)
	if r := a.once(t.Context(), http.MethodGet, "/v1/nodes?limit=10", nil); !r.ok() {
		v.violated("a full disk keeps from reading: %s", r)
	}
	v.upload(a, "full", 1<<20, http.StatusInsufficientStorage)
	l.check(v, a)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if after, refused := l.fill(v, a, 50, 2000, 1); after == 0 || refused > 0 {
		v.violated("there is room again, and %d writes were taken, %d refused", after, refused)
	}
	v.upload(a, "fits", 1<<20, http.StatusCreated)
	v.fillWhileUploading(a, ballast)
	a.again(order{})
	l.check(v, a)
	if left, _ := filepath.Glob(filepath.Join(dir, "images", "*")); len(left) != 1 {
		v.violated("one image was taken, and the directory has %v", left)
	}
}

// smallDisk mounts a disk of a few MiB, in a mount namespace of its own, and
// returns where it is reached.
func smallDisk(t *testing.T, mib int) string {
	dir := t.TempDir()
	p, err := startProcess(order{Hold: dir, Disk: mib}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.stdin.Close(); _ = p.cmd.Wait() })
	<-p.ready
	path := filepath.Join("/proc", fmt.Sprint(p.cmd.Process.Pid), "root", dir)
	var here, there syscall.Statfs_t
	if err := syscall.Statfs(dir, &here); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Statfs(path, &there); err != nil || here == there {
		t.Skipf("a disk of its own cannot be mounted here: %v", err)
	}
	return path
}

// fillUp writes a file until its disk is full.
func fillUp(t *testing.T, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 1<<16); len(piece) > 0; {
		if _, err := f.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
}

// upload sends an image.
func (v *verdict) upload(a *appliance, name string, size int64, want int) {
	v.t.Helper()
	r := a.once(v.t.Context(), http.MethodPut, "/api/v1/images/"+name, sized{io.LimitReader(zeros{}, size), size})
	v.count(1, 1, 1)
	if r.status != want || !r.ok() && !clear(r, []int{want}) {
		v.violated("upload of %d bytes: %s, want %d", size, r, want)
	}
}

// fillWhileUploading fills the disk when an upload has been let in.
func (v *verdict) fillWhileUploading(a *appliance, ballast string) {
	v.t.Helper()
	then := &gate{then: func() { fillUp(v.t, ballast) }}
	body := sized{io.MultiReader(io.LimitReader(zeros{}, 1<<20), then, io.LimitReader(zeros{}, 4<<20)), 5 << 20}
	r := a.once(v.t.Context(), http.MethodPut, "/api/v1/images/squeezed", body)
	v.count(1, 1, 1)
	if !clear(r, []int{http.StatusInsufficientStorage}) {
		v.violated("upload to a disk that fills up: %s", r)
	}
	if err := os.Remove(ballast); err != nil {
		v.t.Fatal(err)
	}
}

// A gate is a reader without bytes that does something when it is come by.
type gate struct {
	once sync.Once
	then func()
}

func (g *gate) Read([]byte) (int, error) {
	g.once.Do(func() {
		time.Sleep(50 * time.Millisecond) // what was sent before is under way
		g.then()
	})
	return 0, io.EOF
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 0
	}
	return len(b), nil
}

// TestFileSizeLimit lets writes fail with EFBIG, which needs no root: the
// store reaches the limit in the middle of a transaction.
func TestFileSizeLimit(t *testing.T) {
	v := prove(t, "file-size-limit")
	a := newAppliance(t, t.TempDir(), order{FileSize: 3 << 20})
	l := newLedger()
	stored, refused := l.fill(v, a, 400, 20_000, 10, http.StatusInsufficientStorage)
	v.count(stored, refused, refused)
	if refused == 0 {
		v.violated("nothing was refused at a limit of 3 MiB, after %d writes", stored)
	}
	v.upload(a, "large", 8<<20, http.StatusInsufficientStorage)
	l.check(v, a)
	a.again(order{})
	l.check(v, a)
	if after, refused := l.fill(v, a, 50, 1000, 1); after == 0 || refused > 0 {
		v.violated("the limit is gone, and %d writes were taken, %d refused", after, refused)
	}
	l.check(v, a)
}

// TestDiskErrors fails the store's n-th write transaction, before it and after
// it, as a full and as a broken disk do, for each n, and three in a row.
func TestDiskErrors(t *testing.T) {
	v := prove(t, "disk-errors")
	kinds := []struct {
		errno syscall.Errno
		code  int
	}{{syscall.ENOSPC, http.StatusInsufficientStorage}, {syscall.EIO, http.StatusServiceUnavailable}}
	for i := range scale(6, 60) {
		for _, when := range []store.Moment{store.BeforeWrite, store.AfterWrite} {
			k := kinds[v.roll(len(kinds))]
			// The first writes are the start's own, and must be let through.
			o := order{Write: uint64(6 + i*scale(5, 1)), WriteWhen: when, WriteErrno: k.errno, WriteLasts: uint64(v.roll(3))}
			a := newAppliance(t, t.TempDir(), o)
			l := newLedger()
			stored, refused := l.fill(v, a, scale(10, 40), 100, 5, k.code)
			l.check(v, a)
			a.again(order{})
			l.check(v, a)
			v.count(stored, 1+int(o.WriteLasts), 1+int(o.WriteLasts))
			if stored == 0 {
				v.violated("%+v: nothing was taken, %d refused", o, refused)
			}
			a.stop()
		}
	}
}
