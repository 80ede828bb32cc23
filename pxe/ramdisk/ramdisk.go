// Package ramdisk makes the ramdisk that machines boot to be deployed: a Linux
// kernel, taken as it is, and an initramfs with the kernel's drivers and the
// agent as /init. There is nothing else in it: no shell, no libraries, no
// tools. The initramfs is written in Go; the same inputs make the same bytes.
package ramdisk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Options say what a ramdisk is made of.
type Options struct {
	// Kernel is the kernel's image and ModulesDir the directory of its modules
	// (".../lib/modules/VERSION"). Both empty: FindKernel's.
	Kernel, ModulesDir string
	// FirmwareDir is where firmware files are, as in /lib/firmware. "" packs none.
	FirmwareDir string
	// Agent is the static binary; nil for Agent().
	Agent []byte
	// Modules are further kernel modules, by name, to pack and to load at boot
	// beside those that the hardware asks for. The kernel must have them.
	Modules []string
	// Certificates is a file of PEM certificates by which the agent checks
	// HTTPS servers, usually /etc/ssl/certs/ca-certificates.crt. "" for none.
	Certificates string
	// Compression is Auto, Zstd or Gzip; "" is Auto.
	Compression string
	Log         zerolog.Logger
}

// Host returns the options by which Build uses what this host has: its kernel,
// firmware files and certificates.
func Host() Options {
	var o Options
	if dir := "/lib/firmware"; isDir(dir) {
		o.FirmwareDir = dir
	}
	if file := "/etc/ssl/certs/ca-certificates.crt"; isFile(file) {
		o.Certificates = file
	}
	return o
}

// A Report says what Build did.
type Report struct {
	Manifest
	Took time.Duration
	// Missing lists what could not be packed and might be wanted: modules that
	// others depend on, firmware files.
	Missing []string
}

// Build writes dir/kernel, dir/initrd and, last, dir/manifest.json. A reader
// sees the old ramdisk, none, or the new one.
func Build(ctx context.Context, o Options, dir string) (Report, error) {
	start := time.Now()
	in, err := o.read()
	if err != nil {
		return Report{}, fmt.Errorf("build ramdisk: %w", err)
	}
	r, err := in.build(ctx, dir)
	if err != nil {
		return Report{}, fmt.Errorf("build ramdisk from %s: %w", in.Kernel, err)
	}
	r.Took = time.Since(start).Round(time.Millisecond)
	o.Log.Info().Str("kernel", r.KernelVersion).Int64("bytes", r.Total()).Int("modules", len(r.Modules)).Dur("took", r.Took).Msg("ramdisk built")
	return r, nil
}

// inputs are Options with everything found and read.
type inputs struct {
	Options
	kernel  []byte
	version string
	arch    string
	certs   []byte
	digest  string // of all that a build depends on
}

func (o Options) read() (*inputs, error) {
	in := &inputs{Options: o}
	var err error
	if in.Kernel == "" && in.ModulesDir == "" {
		if in.Kernel, in.ModulesDir, err = FindKernel(); err != nil {
			return nil, err
		}
	}
	if in.Kernel == "" || in.ModulesDir == "" {
		return nil, fmt.Errorf("a kernel (%q) needs the directory of its modules (%q), and the other way round", in.Kernel, in.ModulesDir)
	}
	if in.kernel, err = os.ReadFile(in.Kernel); err != nil {
		return nil, fmt.Errorf("read kernel: %w", err)
	}
	in.version = filepath.Base(filepath.Clean(in.ModulesDir))
	if v := kernelVersion(in.kernel); v != "" && v != in.version {
		return nil, fmt.Errorf("kernel %s is version %s, its modules %s are of %s: give the two that belong together", in.Kernel, v, in.ModulesDir, in.version)
	}
	if in.Agent == nil {
		if in.Agent, err = Agent(); err != nil {
			return nil, err
		}
	}
	if in.arch, err = agentArch(in.Agent); err != nil {
		return nil, err
	}
	if in.Certificates != "" {
		if in.certs, err = os.ReadFile(in.Certificates); err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
	}
	if in.Compression, err = chooseCompression(in.Compression, in.Kernel, in.ModulesDir, in.version); err != nil {
		return nil, err
	}
	in.digest = in.sum()
	return in, nil
}

// sum identifies what a build is made from, modules and firmware by the place
// they come from.
func (in *inputs) sum() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s %s %s %q %q\n", manifestFormat, in.version, in.Compression, in.ModulesDir, in.FirmwareDir, defaultModules(), in.Modules)
	for _, b := range [][]byte{in.kernel, in.Agent, in.certs} {
		s := sha256.Sum256(b)
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (in *inputs) build(ctx context.Context, dir string) (Report, error) {
	set, err := in.chooseModules(ctx)
	if err != nil {
		return Report{}, err
	}
	parts, missing, err := in.parts(set)
	if err != nil {
		return Report{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Report{}, err
	}
	// Without its manifest the old ramdisk is none: a crash between the files
	// cannot leave a kernel with another's modules.
	if err := os.Remove(filepath.Join(dir, manifestName)); err != nil && !os.IsNotExist(err) {
		return Report{}, err
	}
	m := Manifest{Format: manifestFormat, KernelVersion: in.version, Arch: in.arch, Compression: in.Compression, Inputs: in.digest}
	m.Agent = fileOf(in.Agent)
	for _, mod := range set.modules() {
		m.Modules = append(m.Modules, mod.name)
	}
	if m.Kernel, err = install(dir, KernelName, func(w io.Writer) error { _, err := w.Write(in.kernel); return err }); err != nil {
		return Report{}, err
	}
	m.Initrd, err = install(dir, InitrdName, func(w io.Writer) error {
		m.Parts, err = writeInitramfs(ctx, w, in.Compression, parts)
		return err
	})
	if err != nil {
		return Report{}, err
	}
	if err := m.save(dir); err != nil {
		return Report{}, err
	}
	return Report{Manifest: m, Missing: append(set.missing, missing...)}, nil
}

// install writes a file of the ramdisk and takes its digest on the way.
func install(dir, name string, write func(io.Writer) error) (File, error) {
	h := sha256.New()
	count := &counter{w: h}
	err := writeFile(filepath.Join(dir, name), func(w io.Writer) error { return write(io.MultiWriter(w, count)) })
	if err != nil {
		return File{}, fmt.Errorf("write %s: %w", name, err)
	}
	return File{Size: count.n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

func fileOf(b []byte) File {
	s := sha256.Sum256(b)
	return File{Size: int64(len(b)), SHA256: hex.EncodeToString(s[:])}
}

// chooseModules picks the drivers and checks that they fit kernel and agent.
func (in *inputs) chooseModules(ctx context.Context) (*moduleSet, error) {
	set, err := openModules(in.ModulesDir)
	if err != nil {
		return nil, err
	}
	for _, name := range defaultModules() {
		if _, err := set.pick(ctx, name); err != nil {
			return nil, err
		}
	}
	for _, name := range in.Modules {
		found, err := set.pick(ctx, name)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("kernel %s has no module %s", in.version, name)
		}
	}
	for _, m := range set.modules() {
		if err := in.fits(m); err != nil {
			return nil, err
		}
	}
	in.Log.Info().Str("kernel", in.version).Int("modules", len(set.picked)).Int("of", len(set.files)).Msg("kernel modules chosen")
	return set, nil
}

func (in *inputs) fits(m *module) error {
	if v, _, _ := strings.Cut(m.vermagic, " "); v != in.version {
		return fmt.Errorf("module %s is for kernel %s, not %s: the kernel would refuse it", m.path, v, in.version)
	}
	f, err := elf.NewFile(bytes.NewReader(m.data))
	if err != nil {
		return fmt.Errorf("parse module %s: %w", m.path, err)
	}
	if arch := machineName(f.Machine); arch != in.arch {
		return fmt.Errorf("module %s is for %s, the agent for %s: give a kernel and an agent for the same architecture", m.path, arch, in.arch)
	}
	return nil
}
