package images

import (
	"bytes"
	"crypto/md5"
	"crypto/sha512"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bessemer/agent/fetch"
	"bessemer/store"
)

// A site serves the files of its map, with ranges, and counts requests.
type site struct {
	*httptest.Server
	files map[string][]byte
	hits  atomic.Int64
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{files: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		b, ok := s.files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestResolveURL(t *testing.T) {
	s, site := open(t), newSite(t)
	raw, qcow := random(1<<20), qcow2()
	site.files["/raw.img"], site.files["/disk.qcow2"] = raw, qcow
	site.files["/raw.img.zst"] = pack(t, "zst", raw)
	sum512 := fmt.Sprintf("%x", sha512.Sum512(raw))
	site.files["/SHA256SUMS"] = []byte("-----BEGIN PGP SIGNED MESSAGE-----\n\n" + sha(qcow) + " *disk.qcow2\n" + sha(raw) + "  ./raw.img\n")
	site.files["/bsd"] = []byte("# comment\nSHA256 (raw.img) = " + sha(raw) + "\nSHA512 (raw.img) = " + sum512 + "\n")
	site.files["/raw.img.sha256"] = []byte(strings.ToUpper(sha(raw)) + "\n")

	for _, tt := range []struct {
		name string
		info map[string]any
		want Resolved
	}{
		{
			"checksum as a value",
			map[string]any{"image_source": site.URL + "/raw.img", "image_checksum": sha(raw)},
			Resolved{URL: site.URL + "/raw.img", Size: 1 << 20, Format: "raw", VirtualSize: 1 << 20, HashAlgo: "sha256", HashValue: sha(raw)},
		},
		{
			"algorithm and value, with an MD5 beside them",
			map[string]any{
				"image_source": site.URL + "/raw.img", "image_os_hash_algo": "SHA512", "image_os_hash_value": sum512,
				"image_checksum": fmt.Sprintf("%x", md5.Sum(raw)),
			},
			Resolved{URL: site.URL + "/raw.img", Size: 1 << 20, Format: "raw", VirtualSize: 1 << 20, HashAlgo: "sha512", HashValue: sum512},
		},
		{
			"checksum with its algorithm in front",
			map[string]any{"image_source": site.URL + "/disk.qcow2", "image_checksum": "sha256:" + sha(qcow), "image_disk_format": "qcow2"},
			Resolved{URL: site.URL + "/disk.qcow2", Size: int64(len(qcow)), Format: "qcow2", VirtualSize: 1 << 30, HashAlgo: "sha256", HashValue: sha(qcow)},
		},
		{
			"file of checksums",
			map[string]any{"image_source": site.URL + "/disk.qcow2", "image_checksum": site.URL + "/SHA256SUMS"},
			Resolved{URL: site.URL + "/disk.qcow2", Size: int64(len(qcow)), Format: "qcow2", VirtualSize: 1 << 30, HashAlgo: "sha256", HashValue: sha(qcow)},
		},
		{
			"BSD's file of checksums, the stronger one wins",
			map[string]any{"image_source": site.URL + "/raw.img", "image_checksum": site.URL + "/bsd"},
			Resolved{URL: site.URL + "/raw.img", Size: 1 << 20, Format: "raw", VirtualSize: 1 << 20, HashAlgo: "sha512", HashValue: sum512},
		},
		{
			"a hash alone in its file, after a redirect",
			map[string]any{"image_source": site.URL + "/raw.img?token=x", "image_checksum": site.URL + "/redirect/?to=/raw.img.sha256"},
			Resolved{URL: site.URL + "/raw.img?token=x", Size: 1 << 20, Format: "raw", VirtualSize: 1 << 20, HashAlgo: "sha256", HashValue: sha(raw)},
		},
		{
			"packed",
			map[string]any{"image_source": site.URL + "/raw.img.zst", "image_checksum": sha(site.files["/raw.img.zst"]), "image_disk_format": "raw"},
			Resolved{URL: site.URL + "/raw.img.zst", Size: int64(len(site.files["/raw.img.zst"])), Format: "raw", Packed: "zst", HashAlgo: "sha256", HashValue: sha(site.files["/raw.img.zst"])},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Resolve(t.Context(), tt.info)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("resolved differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveKept(t *testing.T) {
	s := open(t)
	content := random(1 << 20)
	image, err := s.AddReader(t.Context(), "debian 12", "upload", bytes.NewReader(content), -1)
	if err != nil {
		t.Fatal(err)
	}
	want := Resolved{Image: image, Size: 1 << 20, Format: "raw", VirtualSize: 1 << 20, HashAlgo: "sha256", HashValue: sha(content)}
	for _, source := range []string{"debian 12", image.UUID, "glance://" + image.UUID, "Glance://debian 12"} {
		got, err := s.Resolve(t.Context(), map[string]any{"image_source": source})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
	for _, tt := range []struct {
		name string
		info map[string]any
		want error
	}{
		{"right checksum", map[string]any{"image_checksum": sha(content)}, nil},
		{"wrong checksum", map[string]any{"image_checksum": sha(nil)}, ErrInvalid},
		{"wrong format", map[string]any{"image_disk_format": "qcow2"}, ErrInvalid},
		{"right format", map[string]any{"image_disk_format": "RAW"}, nil},
	} {
		tt.info["image_source"] = image.UUID
		if _, err := s.Resolve(t.Context(), tt.info); !errors.Is(err, tt.want) {
			t.Errorf("%s: error = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	s, site := open(t), newSite(t)
	raw := random(1 << 16)
	site.files["/raw.img"], site.files["/looks.raw"], site.files["/backed"] = raw, qcow2(), qcow2(put64(8, 512))
	site.files["/empty"] = nil
	site.files["/md5"] = fmt.Appendf(nil, "%x  raw.img\n", md5.Sum(raw))
	site.files["/other"] = []byte(sha(raw) + "  other.img\n")
	site.files["/two"] = []byte(sha(raw) + "  a/raw.img\n" + sha(nil) + "  b/raw.img\n")
	site.files["/huge"] = bytes.Repeat([]byte("x"), maxChecksums+1)
	site.files["/page"] = []byte("<html>sign in</html>")
	source := site.URL + "/raw.img"

	for _, tt := range []struct {
		name string
		info map[string]any
		want error
		say  string // part of the message
		hits int64  // requests that may be made
	}{
		{"nothing", map[string]any{}, ErrInvalid, "image_source", 0},
		{"not a text", map[string]any{"image_source": 7}, ErrInvalid, "not a text", 0},
		{"no such image", map[string]any{"image_source": "none"}, store.ErrNotFound, "image add", 0},
		{"no such glance image", map[string]any{"image_source": "glance://none"}, store.ErrNotFound, "image add", 0},
		{"a path", map[string]any{"image_source": "/etc/passwd"}, store.ErrNotFound, "", 0},
		{"file://", map[string]any{"image_source": "file:///etc/passwd"}, fetch.ErrRefused, "", 0},
		{"file:", map[string]any{"image_source": "file:/etc/passwd"}, fetch.ErrRefused, "", 0},
		{"FILE://", map[string]any{"image_source": "FILE:///dev/zero"}, fetch.ErrRefused, "", 0},
		{"rbd", map[string]any{"image_source": "rbd://a/b"}, fetch.ErrRefused, "", 0},
		{"file descriptor", map[string]any{"image_source": "fd:3"}, fetch.ErrRefused, "", 0},
		{"credentials in the URL", map[string]any{"image_source": "http://u:p@192.0.2.1/x", "image_checksum": sha(raw)}, fetch.ErrRefused, "", 0},
		{"no checksum", map[string]any{"image_source": source}, ErrInvalid, "SHA256SUMS", 0},
		{"MD5", map[string]any{"image_source": source, "image_checksum": fmt.Sprintf("%x", md5.Sum(raw))}, ErrInvalid, "md5", 0},
		{"MD5 by name", map[string]any{"image_source": source, "image_os_hash_algo": "md5", "image_os_hash_value": "0"}, ErrInvalid, "md5", 0},
		{"algorithm without value", map[string]any{"image_source": source, "image_os_hash_algo": "sha256"}, ErrInvalid, "together", 0},
		{"algorithm and value do not fit", map[string]any{"image_source": source, "image_os_hash_algo": "sha512", "image_os_hash_value": sha(raw)}, ErrInvalid, "no sha512", 0},
		{"unknown algorithm", map[string]any{"image_source": source, "image_os_hash_algo": "blake3", "image_os_hash_value": sha(raw)}, ErrInvalid, "neither", 0},
		{"not hex", map[string]any{"image_source": source, "image_checksum": strings.Repeat("g", 64)}, ErrInvalid, "hex", 0},
		{"checksum file://", map[string]any{"image_source": source, "image_checksum": "file:///dev/zero"}, fetch.ErrRefused, "", 0},
		{"partition image", map[string]any{"image_source": source, "image_checksum": sha(raw), "image_type": "partition"}, ErrInvalid, "whole-disk", 0},
		{"unknown format", map[string]any{"image_source": source, "image_checksum": sha(raw), "image_disk_format": "vmdk"}, ErrInvalid, "raw or qcow2", 0},
		{"checksums without a line for it", map[string]any{"image_source": source, "image_checksum": site.URL + "/other"}, ErrInvalid, "raw.img", 1},
		{"only an MD5 in the file", map[string]any{"image_source": source, "image_checksum": site.URL + "/md5"}, ErrInvalid, "md5", 1},
		{"two files of one name", map[string]any{"image_source": source, "image_checksum": site.URL + "/two"}, ErrInvalid, "two different", 1},
		{"too many checksums", map[string]any{"image_source": source, "image_checksum": site.URL + "/huge"}, fetch.ErrTooLarge, "", 1},
		{"no such file", map[string]any{"image_source": site.URL + "/none", "image_checksum": sha(raw)}, nil, "404", 1},
		{"empty", map[string]any{"image_source": site.URL + "/empty", "image_checksum": sha(raw)}, ErrFormat, "empty", 1},
		{"a page", map[string]any{"image_source": site.URL + "/page", "image_checksum": sha(raw)}, ErrFormat, "web page", 1},
		{"said to be raw but is qcow2", map[string]any{"image_source": site.URL + "/looks.raw", "image_checksum": sha(raw), "image_disk_format": "raw"}, ErrInvalid, "content is qcow2", 1},
		{"qcow2 with a backing file", map[string]any{"image_source": site.URL + "/backed", "image_checksum": sha(raw)}, ErrFormat, "backing", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site.hits.Store(0)
			r, err := s.Resolve(t.Context(), tt.info)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("Resolve = %+v, %v; want %v with %q", r, err, tt.want, tt.say)
			}
			if err != nil && strings.Contains(err.Error(), "u:p") {
				t.Errorf("the error shows a password: %v", err)
			}
			if got := site.hits.Load(); got > tt.hits {
				t.Errorf("%d requests, want at most %d", got, tt.hits)
			}
		})
	}
}

// TestResolveKeepsToThePolicy holds that no way leads to a host that the
// policy refuses: not the URL, not a redirect, not the file of checksums.
func TestResolveKeepsToThePolicy(t *testing.T) {
	allowed, internal := newSite(t), newSite(t)
	raw := random(1 << 16)
	internal.files["/raw.img"] = raw
	internal.files["/sums"] = []byte(sha(raw) + "  raw.img\n")
	allowed.files["/raw.img"] = raw
	policy := loopback
	policy.DenyPorts = []netip.AddrPort{netip.MustParseAddrPort(internal.Listener.Addr().String())}
	s := openWith(t, policy)
	for name, info := range map[string]map[string]any{
		"directly":            {"image_source": internal.URL + "/raw.img", "image_checksum": sha(raw)},
		"by a redirect":       {"image_source": allowed.URL + "/redirect/?to=" + internal.URL + "/raw.img", "image_checksum": sha(raw)},
		"checksum":            {"image_source": allowed.URL + "/raw.img", "image_checksum": internal.URL + "/sums"},
		"checksum redirected": {"image_source": allowed.URL + "/raw.img", "image_checksum": allowed.URL + "/redirect/?to=" + internal.URL + "/sums"},
	} {
		if _, err := s.Resolve(t.Context(), info); !errors.Is(err, fetch.ErrRefused) {
			t.Errorf("%s: error = %v, want ErrRefused", name, err)
		}
	}
	if n := internal.hits.Load(); n != 0 {
		t.Errorf("the refused host was asked %d times", n)
	}
}

func TestServersWithoutRanges(t *testing.T) {
	raw := random(1 << 20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chunked" {
			w.(http.Flusher).Flush()
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
		}
		_, _ = w.Write(raw)
	}))
	defer server.Close()
	s := open(t)
	for path, want := range map[string]int64{"/plain": 1 << 20, "/chunked": -1} {
		r, err := s.Resolve(t.Context(), map[string]any{"image_source": server.URL + path, "image_checksum": sha(raw)})
		if err != nil || r.Size != want || r.Format != "raw" {
			t.Errorf("%s: %+v, %v; want size %d", path, r, err, want)
		}
	}
}

func FuzzPickChecksum(f *testing.F) {
	f.Add([]byte("SHA256 (x) = "+strings.Repeat("a", 64)), "x")
	f.Add([]byte(strings.Repeat("b", 64)+"  x\n"), "x")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		c, err := pickChecksum(text, name)
		if err == nil && (algoByLen[len(c.value)] != c.algo || c.algo != "sha256" && c.algo != "sha512") {
			t.Errorf("checksum = %+v", c)
		}
	})
}
