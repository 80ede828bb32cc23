// Package ipxe holds the iPXE binaries that network cards load first: those of
// the ipxedust module with a start script of ours, and over them whatever the operator has put into the
// data directory (own builds, signed ones, other architectures).
//
// iPXE itself is GPL-2.0: [Licence] says where its source is. The rest of the
// program does not link with it; the binaries are data.
package ipxe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"bessemer/pxe"
)

// Files are boot programs by name. They are read by many goroutines and
// changed by none.
type Files map[string][]byte

// maxFile is the largest file taken from the data directory: a TFTP transfer
// of 512-byte blocks ends at 32 MiB.
const maxFile = 32 << 20

const maxFiles = 64

// Load returns the built-in binaries with the files of dir over and beside
// them. A directory that does not exist is no error. Only plain files that lie
// in dir itself are taken, not what links lead to outside of it.
func Load(dir string) (Files, error) {
	files := Builtin()
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open boot programs: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list boot programs in %s: %w", dir, err)
	}
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("%s has %d entries, at most %d boot programs are taken", dir, len(entries), maxFiles)
	}
	for _, e := range entries {
		content, err := read(root, e)
		if err != nil {
			return nil, fmt.Errorf("read boot program %s/%s: %w", dir, e.Name(), err)
		}
		if content != nil {
			files[e.Name()] = content
		}
	}
	return files, nil
}

func read(root *os.Root, e fs.DirEntry) ([]byte, error) {
	if e.Name()[0] == '.' || e.IsDir() {
		return nil, nil
	}
	if err := pxe.CheckArg(e.Name()); err != nil {
		return nil, fmt.Errorf("name cannot be offered by DHCP: %w", err)
	}
	f, err := root.Open(e.Name())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("not a plain file")
	case info.Size() == 0 || info.Size() > maxFile:
		return nil, fmt.Errorf("%d bytes, want 1 to %d", info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Has reports whether there is a file of the given name.
func (f Files) Has(name string) bool {
	_, ok := f[name]
	return ok
}

// Names returns the names in order.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f)) }

// Digest returns the SHA-256 of a file in hex, "" for none.
func (f Files) Digest(name string) string {
	content, ok := f[name]
	if !ok {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
