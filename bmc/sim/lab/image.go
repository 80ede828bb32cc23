//go:build linux

package lab

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Marker begins the line that the test images print on the serial console once
// they are up.
const Marker = "BESSEMER-OS-UP"

// TinyImage returns the directory of the tiny test image (tiny.raw, tiny.qcow2,
// tiny.raw.zst, tiny.raw.gz, tiny.raw.xz, tiny.sha256). It builds it from the
// kernel in BESSEMER_KERNEL_DIR, or takes the one in BESSEMER_IMAGE_DIR, and
// skips the test when neither is given.
func TinyImage(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("BESSEMER_IMAGE_DIR"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "tiny.sha256")); err == nil {
			return dir
		}
	}
	kernel := os.Getenv("BESSEMER_KERNEL_DIR")
	if kernel == "" {
		t.Skip("no BESSEMER_KERNEL_DIR: unpack a Debian kernel there (dpkg -x linux-image-*.deb DIR)")
	}
	out := os.Getenv("BESSEMER_IMAGE_DIR")
	if out == "" {
		out = t.TempDir()
	}
	script := filepath.Join(moduleRoot(t), "testdata/images/build-tiny.sh")
	if said, err := exec.Command(script, kernel, out).CombinedOutput(); err != nil {
		t.Fatalf("build the tiny image: %v: %s", err, said)
	}
	return out
}

// moduleRoot is the directory of go.mod above the test.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test's directory")
	return ""
}

// ConfigDrive makes an ISO 9660 config drive of these files below
// openstack/latest.
func ConfigDrive(t testing.TB, files map[string]string) string {
	t.Helper()
	if _, err := exec.LookPath("xorrisofs"); err != nil {
		t.Skip("no xorrisofs (Debian package xorriso)")
	}
	tree, iso := t.TempDir(), filepath.Join(t.TempDir(), "config.iso")
	latest := filepath.Join(tree, "openstack/latest")
	if err := os.MkdirAll(latest, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(latest, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.Command("xorrisofs", "-quiet", "-R", "-J", "-V", "config-2", "-o", iso, tree).CombinedOutput(); err != nil {
		t.Fatalf("make config drive: %v: %s", err, said)
	}
	return iso
}

// Install writes a raw image to a disk file, and a config drive into a
// partition of its own at the disk's end: what a deployment does, done by
// other means.
func Install(t testing.TB, disk, image, configDrive string) {
	t.Helper()
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Skip("no sgdisk (Debian package gdisk)")
	}
	copyInto(t, disk, image, 0)
	run := func(args ...string) string {
		out, err := exec.Command("sgdisk", append(args, disk)...).CombinedOutput()
		if err != nil {
			t.Fatalf("sgdisk %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("--move-second-header")
	const MiB = 2048 // sectors
	said := strings.Fields(run("--end-of-largest"))
	end, err := strconv.ParseInt(said[len(said)-1], 10, 64)
	if err != nil {
		t.Fatalf("end of disk: %v", err)
	}
	start := (end - 64*MiB) / MiB * MiB
	run(fmt.Sprintf("--new=2:%d:%d", start, start+64*MiB-1), "--change-name=2:config-2")
	copyInto(t, disk, configDrive, start*512)
}

// copyInto writes the file from into the file to, at an offset.
func copyInto(t testing.TB, to, from string, off int64) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, err := io.Copy(io.NewOffsetWriter(dst, off), src); err != nil {
		t.Fatal(err)
	}
}
