package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"time"

	"bessemer/pxe"
	"bessemer/pxe/httpd"
	"bessemer/pxe/ramdisk"
)

// A standIn is what simulated machines get where no ramdisk has been built, by
// the names of httpd. It is served from memory.
type standIn struct {
	files map[string][]byte
	made  time.Time
}

func newStandIn() *standIn {
	kernel, initrd := ramdisk.StandIn()
	return &standIn{map[string][]byte{httpd.Kernel: kernel, httpd.Initrd: initrd}, time.Now()}
}

func (s *standIn) open(name string) (*pxe.File, error) {
	content, ok := s.files[name]
	if !ok {
		return nil, fmt.Errorf("stand-in for the ramdisk's %s: %w", name, fs.ErrNotExist)
	}
	return &pxe.File{ReadSeekCloser: inMemory{bytes.NewReader(content)}, Size: int64(len(content)), Modified: s.made}, nil
}

func (s *standIn) sum(name string) string {
	sum := sha256.Sum256(s.files[name])
	return hex.EncodeToString(sum[:])
}

type inMemory struct{ *bytes.Reader }

// Close implements [io.Closer]; there is nothing to close.
func (inMemory) Close() error { return nil }
