package ramdisk

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
)

var update = flag.Bool("update", false, "write the golden files anew")

// unpack reads an initramfs with another implementation.
func unpack(t *testing.T, file string) []cpio.Record {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		r, err = gzip.NewReader(bytes.NewReader(b))
	} else {
		r, err = zstd.NewReader(bytes.NewReader(b))
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(plain)))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestBuild(t *testing.T) {
	h, dir := newHost(t), t.TempDir()
	r, err := Build(t.Context(), h.options(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	content := map[string]string{}
	for _, rec := range unpack(t, filepath.Join(dir, InitrdName)) {
		fmt.Fprintf(&list, "%06o %d:%d %d,%d %s\n", rec.Mode, rec.UID, rec.GID, rec.Rmajor, rec.Rminor, rec.Name)
		if rec.ReaderAt != nil {
			b, err := io.ReadAll(io.NewSectionReader(rec.ReaderAt, 0, int64(rec.FileSize)))
			if err != nil {
				t.Fatal(err)
			}
			content[strings.TrimPrefix(rec.Name, "lib/modules/"+version+"/")] = string(b)
		}
	}
	golden(t, "initramfs.txt", list.String())
	for name, want := range map[string]string{
		"modules.dep": "kernel/arch/x86/crypto/crc32c-intel.ko:\nkernel/crypto/crc32c_generic.ko:\n" +
			"kernel/drivers/net/dummy.ko:\n" +
			"kernel/drivers/net/ethernet/broadcom/bnx2x/bnx2x.ko: kernel/lib/libcrc32c.ko\n" +
			"kernel/drivers/net/virtio_net.ko: kernel/net/core/net_failover.ko kernel/net/core/failover.ko\n" +
			"kernel/lib/libcrc32c.ko:\n" +
			"kernel/net/core/failover.ko:\n" +
			"kernel/net/core/net_failover.ko: kernel/net/core/failover.ko\n",
		"modules.alias": "alias crc32c crc32c_intel\nalias crc32c crc32c_generic\nalias crypto-crc32c-generic crc32c_generic\n" +
			"alias pci:v000014E4d0000164Esv*sd*bc*sc*i* bnx2x\nalias virtio:d00000001v* virtio_net\n",
		"modules.softdep": "softdep libcrc32c pre: crc32c_generic\n",
		"modules.load":    "dummy",
		"lib/firmware/bnx2x/bnx2x-e2-7.13.21.0.fw": "firmware",
		"sbin/modprobe": "../init",
	} {
		if d := cmp.Diff(want, content[name]); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if d := cmp.Diff([]string{"mdio, which bnx2x needs", "bnx2x/missing.fw"}, r.Missing); d != "" {
		t.Errorf("missing (-want +got):\n%s", d)
	}
	if r.KernelVersion != version || r.Arch != "x86_64" || r.Compression != Zstd || r.Agent.Size == 0 {
		t.Errorf("manifest %+v", r.Manifest)
	}
	var sum int64
	for _, p := range r.Parts {
		sum += p.Compressed
	}
	if left := r.Initrd.Size - sum; len(r.Parts) != 4 || left < 0 || left > 256 { // the trailer
		t.Errorf("parts %+v do not make up %d bytes", r.Parts, r.Initrd.Size)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), -update writes it anew:\n%s", file, d)
	}
}

func TestBuildIsReproducible(t *testing.T) {
	h := newHost(t)
	for _, method := range []string{Zstd, Gzip} {
		var sums []string
		for range 2 {
			o := h.options()
			o.Compression = method
			r, err := Build(t.Context(), o, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, r.Initrd.SHA256)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: two builds differ: %v", method, sums)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(h host, o *Options)
	}{
		{"modules of another kernel", "is version " + version, func(h host, o *Options) {
			h.write("lib/modules/5.10/x", nil)
			o.ModulesDir = filepath.Join(h.root, "lib/modules/5.10")
		}},
		{"a module of another kernel", "is for kernel 5.10", func(h host, o *Options) {
			h.write("lib/modules/"+version+"/kernel/drivers/net/e1000.ko", elfFile(t, elf.EM_X86_64, []string{"vermagic=5.10 SMP"}, false))
		}},
		{"an agent for another architecture", "is for x86_64, the agent for aarch64", func(h host, o *Options) {
			o.Agent = elfFile(t, elf.EM_AARCH64, nil, false)
		}},
		{"a dynamic agent", "CGO_ENABLED=0", func(h host, o *Options) { o.Agent = elfFile(t, elf.EM_X86_64, nil, true) }},
		{"an agent that is none", "check the agent", func(h host, o *Options) { o.Agent = []byte("#!/bin/sh") }},
		{"a module that is not there", "has no module nonesuch", func(h host, o *Options) { o.Modules = []string{"nonesuch"} }},
		{"a broken module", "parse module", func(h host, o *Options) { h.write("lib/modules/"+version+"/kernel/e1000.ko", []byte("garbage")) }},
		{"no modules", "there are none", func(h host, o *Options) {
			if err := os.RemoveAll(filepath.Join(o.ModulesDir, "kernel")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a kernel alone", "needs the directory of its modules", func(h host, o *Options) { o.ModulesDir = "" }},
		{"an unknown compression", `compression "lz4" is not known`, func(h host, o *Options) { o.Compression = "lz4" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, dir := newHost(t), t.TempDir()
			o := h.options()
			tt.change(h, &o)
			_, err := Build(t.Context(), o, dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
			if _, err := Open(dir); !errors.Is(err, ErrNone) {
				t.Errorf("after a failure: %v", err)
			}
		})
	}
}

func TestAFailedBuildKeepsTheOldRamdisk(t *testing.T) {
	h, dir := newHost(t), t.TempDir()
	if _, err := Build(t.Context(), h.options(), dir); err != nil {
		t.Fatal(err)
	}
	o := h.options()
	o.Modules = []string{"nonesuch"}
	if _, err := Build(t.Context(), o, dir); err == nil {
		t.Fatal("no error")
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
}

func TestEnsure(t *testing.T) {
	h, dir := newHost(t), filepath.Join(t.TempDir(), "ramdisk")
	for _, tt := range []struct {
		name  string
		built bool
		do    func(o *Options)
	}{
		{"none there", true, func(*Options) {}},
		{"up to date", false, func(*Options) {}},
		{"another agent", true, func(o *Options) { o.Agent = elfFile(t, elf.EM_X86_64, []string{"new"}, false) }},
		{"other options", true, func(o *Options) { o.Compression = Gzip }},
		{"a file was cut off", true, func(o *Options) {
			o.Compression = Gzip
			if err := os.Truncate(filepath.Join(dir, InitrdName), 10); err != nil {
				t.Fatal(err)
			}
		}},
		{"a manifest of another version", true, func(o *Options) {
			o.Compression = Gzip
			if err := os.WriteFile(filepath.Join(dir, manifestName), []byte(`{"format":0}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		o := h.options()
		tt.do(&o)
		r, built, err := Ensure(t.Context(), dir, o)
		if err != nil || built != tt.built {
			t.Fatalf("%s: built %v, %v", tt.name, built, err)
		}
		if err := r.Verify(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, KernelName), make([]byte, 0x400), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := Open(dir); err != nil || r.Verify() == nil {
		t.Errorf("a changed kernel was not noticed, %v", err)
	}
}

func TestFindKernel(t *testing.T) {
	root := t.TempDir()
	h := host{t, root}
	if _, _, err := findKernel(root, "6.1"); !errors.Is(err, ErrNoKernel) || !strings.Contains(err.Error(), "apt-get download") {
		t.Errorf("without a kernel: %v", err)
	}
	for _, v := range []string{"6.1.0-9-amd64", "6.1.0-10-amd64", "6.1.0-8-amd64"} {
		h.write("boot/vmlinuz-"+v, nil)
		h.write("lib/modules/"+v+"/kernel/x.ko", nil)
	}
	h.write("lib/modules/7.0/kernel/x.ko", nil)     // without a kernel
	h.write("boot/vmlinuz-8.0", nil)                // without modules
	h.write("usr/lib/modules/5.0/kernel/x.ko", nil) // as Fedora has it
	h.write("usr/lib/modules/5.0/vmlinuz", nil)
	for running, want := range map[string]string{"6.1.0-8-amd64": "boot/vmlinuz-6.1.0-8-amd64", "9.9": "boot/vmlinuz-6.1.0-10-amd64", "5.0": "usr/lib/modules/5.0/vmlinuz"} {
		kernel, modules, err := findKernel(root, running)
		if err != nil || kernel != filepath.Join(root, want) || !isDir(modules) {
			t.Errorf("running %s: found %s, %s, %v", running, kernel, modules, err)
		}
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"5.10.0-8-amd64", "5.10.0-10-amd64", "6.1", "6.1.0", "6.1.0-9-amd64", "6.1.0-10-amd64", "6.12.1"}
	for i := range order {
		for j := range order {
			got := compareVersions(order[i], order[j])
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", order[i], order[j], got)
			}
		}
	}
}

func TestChooseCompression(t *testing.T) {
	h := newHost(t)
	o := h.options()
	if got, _ := chooseCompression(Auto, o.Kernel, o.ModulesDir, version); got != Zstd {
		t.Errorf("a kernel that can zstd: %s", got)
	}
	h.write("boot/config-"+version, []byte("CONFIG_RD_GZIP=y\n# CONFIG_RD_ZSTD is not set\n"))
	if got, _ := chooseCompression("", o.Kernel, o.ModulesDir, version); got != Gzip {
		t.Errorf("a kernel that cannot: %s", got)
	}
}

func FuzzKernelVersion(f *testing.F) {
	f.Add(kernelImage(version))
	f.Add(append(make([]byte, 0x202), "HdrS\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"...))
	f.Fuzz(func(t *testing.T, image []byte) {
		if v := kernelVersion(image); len(v) > 256 || strings.ContainsAny(v, " \x00") {
			t.Errorf("version %q", v)
		}
	})
}
