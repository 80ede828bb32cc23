//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bessemer/pxe/ramdisk"
)

// benchRamdisk builds the ramdisk as the appliance does, and weighs its parts.
func benchRamdisk(t *testing.T, b *bench) {
	report, err := ramdisk.Build(t.Context(), ramdiskOptions(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	size := func(name string, bytes int64, how string) row {
		return row{Subject: "ramdisk, " + name, Unit: "MB", Ours: []float64{mega(bytes)}, Less: true, How: how}
	}
	b.add(size("kernel", report.Kernel.Size, "Debian's "+report.KernelVersion+", as it is"))
	for _, p := range report.Parts {
		b.add(size(p.Name, p.Compressed, fmt.Sprintf("%s of %.1f MB, %d files", report.Compression, mega(p.Size), p.Files)))
	}
	for _, peer := range []struct {
		name string
		size float64
	}{
		{"Ironic-Python-Agent, published: 300 to 500", 300},
		{"HookOS, published: 900 unpacked", 180},
	} {
		r := size("total", report.Total(), fmt.Sprintf("kernel and initrd, built in %.1f s", report.Took.Seconds()))
		r.PeerName, r.Peer = peer.name, []float64{peer.size}
		b.add(r)
	}
	bin, err := os.Stat("bin/bessemer")
	if err != nil {
		t.Fatal(err)
	}
	b.add(row{
		Subject: "appliance, one binary", Unit: "MB", Ours: []float64{mega(bin.Size())}, Less: true,
		Peer: []float64{606}, PeerName: "Ironic with MariaDB, RabbitMQ, Keystone, measured elsewhere", How: "its 387 packages over a minimal Debian",
	})
}

// ramdiskOptions are those of an appliance with the settings of
// [applianceConfig].
func ramdiskOptions(t *testing.T) ramdisk.Options {
	t.Helper()
	kernels, err := filepath.Glob(filepath.Join(*kernelDir, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		t.Fatalf("%d kernels in %s/boot, want one; make bench gets it", len(kernels), *kernelDir)
	}
	o := ramdisk.Host()
	o.Kernel = kernels[0]
	o.ModulesDir = filepath.Join(*kernelDir, "lib/modules", filepath.Base(kernels[0])[len("vmlinuz-"):])
	return o
}

func mega(bytes int64) float64 { return float64(bytes) / 1e6 }
