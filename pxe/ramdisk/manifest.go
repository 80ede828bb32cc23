package ramdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of a ramdisk's files.
const (
	KernelName   = "kernel"
	InitrdName   = "initrd"
	manifestName = "manifest.json"
)

// manifestFormat changes when what Build makes from the same inputs changes.
const manifestFormat = 1

// ErrNone is wrapped by Open's error when a directory has no complete ramdisk.
var ErrNone = errors.New("no ramdisk")

// A Manifest describes a ramdisk. Sizes are in bytes.
type Manifest struct {
	Format        int      `json:"format"`
	KernelVersion string   `json:"kernel_version"`
	Arch          string   `json:"arch"` // x86_64, aarch64
	Compression   string   `json:"compression"`
	Kernel        File     `json:"kernel"`
	Initrd        File     `json:"initrd"`
	Agent         File     `json:"agent"`
	Parts         []Part   `json:"parts"` // of the initrd
	Modules       []string `json:"modules"`
	Inputs        string   `json:"inputs"` // digest of what it was built from
}

// A File is the size and SHA-256 of a file.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// A Part is a component of the initrd: agent, modules, firmware or other; as
// it is in memory after booting and as it is transferred.
type Part struct {
	Name       string `json:"name"`
	Files      int    `json:"files"`
	Size       int64  `json:"size"`
	Compressed int64  `json:"compressed"`
}

// Total is what a machine loads: kernel and initrd.
func (m Manifest) Total() int64 { return m.Kernel.Size + m.Initrd.Size }

func (m Manifest) save(dir string) error {
	return writeFile(filepath.Join(dir, manifestName), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

// A Ramdisk is one that was built.
type Ramdisk struct {
	Manifest
	KernelPath, InitrdPath string
}

// Open returns the ramdisk in dir. It compares sizes; Verify reads the files.
func Open(dir string) (*Ramdisk, error) {
	b, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open ramdisk: %w in %s: run \"bessemer ramdisk build\"", ErrNone, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open ramdisk: %w", err)
	}
	r := &Ramdisk{KernelPath: filepath.Join(dir, KernelName), InitrdPath: filepath.Join(dir, InitrdName)}
	if err := json.Unmarshal(b, &r.Manifest); err != nil || r.Format != manifestFormat {
		return nil, fmt.Errorf("open ramdisk: %w of this version in %s (format %d, %v): run \"bessemer ramdisk build\"", ErrNone, dir, r.Format, err)
	}
	for path, want := range r.files() {
		if fi, err := os.Stat(path); err != nil || fi.Size() != want.Size {
			return nil, fmt.Errorf("open ramdisk: %w: %s is not the file of %d bytes that was built (%v): run \"bessemer ramdisk build\"", ErrNone, path, want.Size, err)
		}
	}
	return r, nil
}

func (r *Ramdisk) files() map[string]File {
	return map[string]File{r.KernelPath: r.Kernel, r.InitrdPath: r.Initrd}
}

// Verify compares the files with their digests.
func (r *Ramdisk) Verify() error {
	for path, want := range r.files() {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("verify ramdisk: %w", err)
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("verify ramdisk: read %s: %w", path, err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != want.SHA256 {
			return fmt.Errorf("verify ramdisk: %s has SHA-256 %s, was built with %s: run \"bessemer ramdisk build\"", path, got, want.SHA256)
		}
	}
	return nil
}

// Ensure returns the ramdisk in dir, and builds it first when there is none or
// when it was made from another kernel, agent or options; built says so. When
// there is one but no kernel to build another from, the one that is there will
// do.
func Ensure(ctx context.Context, dir string, o Options) (r *Ramdisk, built bool, err error) {
	old, oldErr := Open(dir)
	in, err := o.read()
	if errors.Is(err, ErrNoKernel) && oldErr == nil {
		o.Log.Info().Str("kernel", old.KernelVersion).Msg("this host has no kernel to build a ramdisk from; the present one stays")
		return old, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("ensure ramdisk: %w", err)
	}
	if oldErr == nil && old.Inputs == in.digest {
		return old, false, nil
	}
	if _, err := Build(ctx, in.Options, dir); err != nil {
		return nil, false, err
	}
	r, err = Open(dir)
	return r, true, err
}
