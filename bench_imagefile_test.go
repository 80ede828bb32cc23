//go:build linux

package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rs/zerolog"

	"bessemer/agent/fetch"
	agentimage "bessemer/agent/image"
	"bessemer/pxe"
	"bessemer/pxe/httpd"
	"bessemer/store"
)

// makeRaw makes an image like those of operating systems: a quarter of it is
// holes, half of the rest can be compressed.
func (i *imageBench) makeRaw(t *testing.T) {
	t.Helper()
	f, err := os.Create(i.raw)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := rand.NewChaCha8([32]byte{7})
	const piece = 1 << 20
	buf := make([]byte, piece)
	text := bytes.Repeat([]byte("Configuration files repeat themselves; programs do so less. "), 4)
	for off := int64(0); off < i.size; off += piece {
		switch n := off / piece % 8; {
		case n >= 6:
			continue // a hole
		case n >= 3:
			for rest := buf; len(rest) > 0; {
				_, _ = r.Read(rest[:min(len(rest), 80)])
				rest = rest[min(len(rest), 80):]
				rest = rest[copy(rest, text):]
			}
		default:
			_, _ = r.Read(buf) // never fails
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(i.size); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func (i *imageBench) makeZst(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(i.dir, "raw.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(z, openFile(t, i.raw)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

func (i *imageBench) sum(t *testing.T, path string) agentimage.Checksum {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, openFile(t, path)); err != nil {
		t.Fatal(err)
	}
	return agentimage.Checksum{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// serve starts our HTTP server of boot files, on loopback.
func (i *imageBench) serve(t *testing.T) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	i.url = "http://" + s.Listener.Addr().String()
	h, err := httpd.New(httpd.Config{
		Booter: imageBooter{i.dir}, BaseURL: i.url, Ramdisk: httpd.Files(nil, nil), Recorder: nobody{}, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = h
	s.Start()
	t.Cleanup(s.Close)
}

// imageBooter serves the files of a directory, each to who has its name as a
// token.
type imageBooter struct{ dir string }

func (imageBooter) Boot(context.Context, pxe.Machine) pxe.Boot { return pxe.Boot{Action: pxe.Retry} }

func (b imageBooter) File(_ context.Context, token, _ string) (*pxe.File, error) {
	f, err := os.Open(filepath.Join(b.dir, filepath.Base(token)))
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &pxe.File{ReadSeekCloser: f, Size: fi.Size(), Modified: fi.ModTime()}, nil
}

// nobody keeps no messages.
type nobody struct{}

func (nobody) Record(context.Context, store.Message) uint64 { return 0 }

// remoteImage is an image at a URL, as the agent opens it.
type remoteImage struct {
	client *http.Client
	url    string
}

func (r remoteImage) Open(ctx context.Context) (agentimage.File, error) {
	return fetch.Open(ctx, r.client, r.url, fetch.Limits{})
}
