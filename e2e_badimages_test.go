//go:build linux

package main_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"bessemer/bmc/sim"
)

// badImages is a server of images that cannot be deployed.
type badImages struct {
	dir, url string
	sums     map[string]string // SHA-256 by name
}

const (
	cutAt    = 5 << 20  // where the server of cut.raw gives up
	longSize = 20 << 30 // of long.raw, as its server says
)

// serveBadImages makes them of the tiny image.
func serveBadImages(t *testing.T, r *rack) *badImages {
	t.Helper()
	b := &badImages{dir: t.TempDir(), sums: map[string]string{}}
	tiny, err := filepath.Abs(filepath.Join(*imageDir, "tiny.raw"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(b.dir, "data")
	for name, args := range map[string][]string{
		"backing.qcow2":   {"-b", tiny, "-F", "raw"},
		"datafile.qcow2":  {"-o", "data_file=" + data, "1G"},
		"encrypted.qcow2": {"--object", "secret,id=s,data=x", "-o", "encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10", "1G"},
		"vast.qcow2":      {"1T"},
	} {
		file, size := filepath.Join(b.dir, name), args[len(args)-1:]
		args = args[:len(args)-1]
		if size[0] == "raw" { // the backing file tells it
			args, size = append(args, size...), nil
		}
		b.make(t, append(append(append([]string{"create", "-q", "-f", "qcow2"}, args...), file), size...)...)
		b.sum(t, name)
	}
	b.absurd(t)
	b.large(t)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(b.dir)))
	mux.Handle("/to-loopback.raw", http.RedirectHandler("http://127.0.0.1/os.raw", http.StatusFound))
	mux.HandleFunc("/cut.raw", func(w http.ResponseWriter, r *http.Request) { serveCut(w, r, tiny) })
	mux.HandleFunc("/long.raw", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1, 0), io.NewSectionReader(zeros{}, 0, longSize))
	})
	b.url = r.lab.Serve(mux)
	return b
}

func (b *badImages) make(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (b *badImages) sum(t *testing.T, name string) {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, openFile(t, filepath.Join(b.dir, name))); err != nil {
		t.Fatal(err)
	}
	b.sums[name] = hex.EncodeToString(h.Sum(nil))
}

// absurd is a qcow2 image whose header asks for clusters of 2^63 bytes.
func (b *badImages) absurd(t *testing.T) {
	t.Helper()
	head, err := os.ReadFile(filepath.Join(*imageDir, "tiny.qcow2"))
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(head[20:], 63)
	if err := os.WriteFile(filepath.Join(b.dir, "absurd.qcow2"), head, 0o600); err != nil {
		t.Fatal(err)
	}
	b.sum(t, "absurd.qcow2")
}

// large is a packed image that does not say how large it is: 160 MiB.
func (b *badImages) large(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(b.dir, "large.raw.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	copy(block, "this is in every MiB")
	for range 160 {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	b.sum(t, "large.raw.zst")
}

// serveCut announces a whole file and ends before.
func serveCut(w http.ResponseWriter, r *http.Request, file string) {
	f, err := os.Open(file)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	http.ServeContent(w, r, "", time.Unix(1, 0), &cut{f})
}

// A cut is a file whose content ends earlier than its size says. The file is
// not embedded: the kernel would send it whole.
type cut struct{ f *os.File }

func (c *cut) Seek(off int64, whence int) (int64, error) { return c.f.Seek(off, whence) }

func (c *cut) Read(p []byte) (int, error) {
	at, err := c.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	if at >= cutAt {
		return 0, io.ErrUnexpectedEOF
	}
	return c.f.Read(p[:min(int64(len(p)), cutAt-at)])
}

// zeros is a disk image of zeros, which is not written anywhere.
type zeros struct{}

func (zeros) ReadAt(p []byte, _ int64) (int, error) {
	clear(p)
	return len(p), nil
}

// writeForeignCA writes the certificate of another controller.
func writeForeignCA(t *testing.T, file string) {
	t.Helper()
	_, text, err := sim.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
