package images

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bessemer/agent/fetch"
	"bessemer/store"
	"bessemer/store/storetest"
)

// loopback lets tests ask servers of their own.
var loopback = fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

func open(t *testing.T) *Store {
	t.Helper()
	return openWith(t, loopback)
}

func openWith(t *testing.T, p fetch.Policy) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "images"), storetest.Open(t), p)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	b[0] = 0 // no magic by chance
	return b
}

func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// files lists what lies in the directory of images.
func files(t *testing.T, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestAdd(t *testing.T) {
	content := random(3<<20 + 17)
	path := filepath.Join(t.TempDir(), "debian.raw")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(path))))
	defer server.Close()

	for _, tt := range []struct{ name, source, noted string }{
		{"from a file", path, "debian.raw"},
		{"from a URL", server.URL + "/debian.raw?signature=secret", server.URL + "/debian.raw"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			var last, total int64
			image, err := s.Add(t.Context(), "debian", tt.source, func(done, of int64) { last, total = done, of })
			if err != nil {
				t.Fatal(err)
			}
			if last != int64(len(content)) || total != last {
				t.Errorf("last progress = %d of %d, want %d", last, total, len(content))
			}
			if image.SHA256 != sha(content) || len(image.SHA512) != 128 || image.Size != last || image.Format != "raw" ||
				image.VirtualSize != last || image.Source != tt.noted {
				t.Errorf("image = %+v", image)
			}
			f, err := s.OpenFile(image.UUID)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := io.ReadAll(f)
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("content differs, %v", err)
			}
			if byName, err := s.Get("debian"); err != nil || byName.UUID != image.UUID {
				t.Errorf("Get = %v, %v", byName, err)
			}
			if list, err := s.List(); err != nil || len(list) != 1 {
				t.Errorf("List = %v, %v", list, err)
			}
			if got := files(t, s); !slices.Equal(got, []string{image.UUID}) {
				t.Errorf("files = %v", got)
			}
		})
	}
}

func TestAddRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	page := filepath.Join(dir, "page")
	good := filepath.Join(dir, "good")
	for path, content := range map[string]string{empty: "", page: "\n<!DOCTYPE html><title>404</title>", good: "data"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t)
	if _, err := s.Add(t.Context(), "taken", good, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, image, source string
		want                error
	}{
		{"a taken name", "taken", good, store.ErrConflict},
		{"no name", "", good, ErrInvalid},
		{"a name like a UUID", "11111111-2222-3333-4444-555555555555", good, ErrInvalid},
		{"a name like a path", "../x", good, ErrInvalid},
		{"a name like a URL", "http:x", good, ErrInvalid},
		{"a name with an escape sequence", "x\x1b[31m", good, ErrInvalid},
		{"a missing file", "x", filepath.Join(dir, "none"), os.ErrNotExist},
		{"a directory", "x", dir, ErrFormat},
		{"a FIFO", "x", fifo, ErrFormat},
		{"an endless device", "x", "/dev/zero", ErrFormat},
		{"an empty file", "x", empty, ErrFormat},
		{"a web page", "x", page, ErrFormat},
		{"file://", "x", "file://" + good, fetch.ErrRefused},
		{"file:", "x", "file:" + good, fetch.ErrRefused},
		{"FILE://", "x", "FILE://" + good, fetch.ErrRefused},
		{"ftp", "x", "ftp://192.0.2.1/x", fetch.ErrRefused},
		{"a metadata service", "x", "http://169.254.169.254/x", fetch.ErrRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.Add(t.Context(), tt.image, tt.source, nil); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if got := files(t, s); len(got) != 1 {
				t.Errorf("files = %v, want only the first image", got)
			}
		})
	}
}

// broken gives some bytes, then an error.
type broken struct {
	r   io.Reader
	err error
}

func (b broken) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func TestAddReader(t *testing.T) {
	content := random(1<<20 + 5)
	s := open(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		r    io.Reader
		size int64
		want error
	}{
		{"too short", t.Context(), bytes.NewReader(content), int64(len(content)) + 1, io.ErrUnexpectedEOF},
		{"too long", t.Context(), bytes.NewReader(content), int64(len(content)) - 1, ErrInvalid},
		{"broken off", t.Context(), broken{bytes.NewReader(content), io.ErrUnexpectedEOF}, -1, io.ErrUnexpectedEOF},
		{"cancelled", cancelled, bytes.NewReader(content), -1, context.Canceled},
		{"larger than the disk", t.Context(), bytes.NewReader(content), 3 << 40, ErrNoSpace},
		{"larger than anything", t.Context(), bytes.NewReader(content), 8 << 50, ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := s.AddReader(tt.ctx, "x", "upload", tt.r, tt.size); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if got := files(t, s); len(got) != 0 {
				t.Errorf("files = %v, want none", got)
			}
		})
	}
	for _, size := range []int64{-1, int64(len(content))} {
		image, err := s.AddReader(t.Context(), fmt.Sprint("size ", size), "upload", bytes.NewReader(content), size)
		if err != nil || image.SHA256 != sha(content) {
			t.Errorf("AddReader with size %d = %v, %v", size, image, err)
		}
	}
}

func TestDelete(t *testing.T) {
	s := open(t)
	image, err := s.AddReader(t.Context(), "a", "", strings.NewReader("data"), -1)
	if err != nil {
		t.Fatal(err)
	}
	n := &store.Node{UUID: "n", ProvisionState: store.DeployWait, InstanceInfo: map[string]any{"image_source": "glance://" + image.UUID}}
	save := func() {
		if err := s.db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, n) }); err != nil {
			t.Fatal(err)
		}
	}
	save()
	if err := s.Delete("a"); !errors.Is(err, ErrInUse) {
		t.Errorf("delete while deploying = %v, want ErrInUse", err)
	}
	n.ProvisionState = store.Active
	save()
	f, err := s.OpenFile(image.UUID)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != "data" {
		t.Errorf("reading on after delete = %q, %v", got, err)
	}
	if _, err := s.OpenFile(image.UUID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("OpenFile = %v, want ErrNotFound", err)
	}
	if err := s.Delete("a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("second delete = %v, want ErrNotFound", err)
	}
	if got := files(t, s); len(got) != 0 {
		t.Errorf("files = %v", got)
	}
}

func TestOpenFileStaysInside(t *testing.T) {
	s := open(t)
	for _, id := range []string{"", "..", "../bessemer.db", "/etc/passwd", "x"} {
		if f, err := s.OpenFile(id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("OpenFile(%q) = %v, %v", id, f, err)
		}
	}
}

func TestOpenClearsLeftovers(t *testing.T) {
	s := open(t)
	image, err := s.AddReader(t.Context(), "a", "", strings.NewReader("data"), -1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tempPrefix + "123", "11111111-2222-3333-4444-555555555555", "README"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(s.dir, s.db, loopback); err != nil {
		t.Fatal(err)
	}
	got, want := files(t, s), []string{"README", image.UUID}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files = %v, want %v", got, want)
	}
}

func TestVerify(t *testing.T) {
	s := open(t)
	var ids []string
	for _, name := range []string{"good", "changed", "missing"} {
		image, err := s.AddReader(t.Context(), name, "", strings.NewReader("data of "+name), -1)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, image.UUID)
	}
	if err := os.WriteFile(s.path(ids[1]), []byte("dAta of changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.path(ids[2])); err != nil {
		t.Fatal(err)
	}
	bad, err := s.Verify(t.Context())
	if err != nil || len(bad) != 2 || bad[ids[1]] == nil || bad[ids[2]] == nil {
		t.Errorf("Verify = %v, %v; want changed and missing", bad, err)
	}
}
