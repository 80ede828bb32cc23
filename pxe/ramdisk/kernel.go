package ramdisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoKernel is wrapped by FindKernel's error when this host has no kernel
// to build a ramdisk from.
var ErrNoKernel = errors.New("no Linux kernel found")

// howToGetKernel is told to whoever has none.
const howToGetKernel = `get one without installing it, for instance on Debian:
  apt-get download linux-image-amd64   # says which package it depends on
  apt-get download linux-image-6.1.0-57-amd64
  dpkg -x linux-image-6.1.0-57-amd64_*.deb kernel
  bessemer ramdisk build --kernel kernel/boot/vmlinuz-* --modules kernel/lib/modules/*`

// FindKernel looks for a kernel on this host and the directory of its modules:
// first the one that runs, else the newest that has both.
func FindKernel() (kernel, modules string, err error) {
	var un unix.Utsname
	_ = unix.Uname(&un) // without a name, the newest is taken
	return findKernel("/", unix.ByteSliceToString(un.Release[:]))
}

func findKernel(root, running string) (kernel, modules string, err error) {
	versions := kernelVersions(root)
	if i := slices.Index(versions, running); i >= 0 {
		versions[0], versions[i] = versions[i], versions[0]
	}
	for _, v := range versions {
		for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
			modules = filepath.Join(root, dir, v)
			for _, kernel = range []string{filepath.Join(root, "boot/vmlinuz-"+v), filepath.Join(modules, "vmlinuz")} {
				if isFile(kernel) && isDir(filepath.Join(modules, "kernel")) {
					return kernel, modules, nil
				}
			}
		}
	}
	return "", "", fmt.Errorf("%w: looked for /boot/vmlinuz-VERSION with /lib/modules/VERSION; %s", ErrNoKernel, howToGetKernel)
}

// kernelVersions lists the versions of which there are modules, newest first.
func kernelVersions(root string) []string {
	var versions []string
	for _, dir := range []string{"lib/modules", "usr/lib/modules"} {
		entries, _ := os.ReadDir(filepath.Join(root, dir)) // none is what "no kernel" means
		for _, e := range entries {
			if !slices.Contains(versions, e.Name()) {
				versions = append(versions, e.Name())
			}
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return compareVersions(b, a) })
	return versions
}

// compareVersions orders 6.1.0-9-amd64 before 6.1.0-10-amd64: runs of digits
// count as numbers.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, restA := token(a)
		y, restB := token(b)
		n, errN := strconv.ParseUint(x, 10, 64)
		m, errM := strconv.ParseUint(y, 10, 64)
		switch {
		case errN == nil && errM == nil && n != m:
			if n < m {
				return -1
			}
			return 1
		case (errN != nil || errM != nil) && x != y:
			return strings.Compare(x, y)
		}
		a, b = restA, restB
	}
	return len(a) - len(b)
}

// token cuts the leading run of digits, or of anything else, off s.
func token(s string) (head, rest string) {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	i := 1
	for i < len(s) && digit(s[i]) == digit(s[0]) {
		i++
	}
	return s[:i], s[i:]
}

func isFile(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.Mode().IsRegular()
}

func isDir(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.IsDir()
}

// kernelVersion reads the version out of a kernel image: x86's boot protocol
// keeps its place at 0x20e (the kernel's Documentation/arch/x86/boot.rst).
// Images of other architectures have none that could be read: "".
func kernelVersion(image []byte) string {
	if len(image) < 0x210 || string(image[0x202:0x206]) != "HdrS" {
		return ""
	}
	at := int(binary.LittleEndian.Uint16(image[0x20e:])) + 0x200
	if at >= len(image) {
		return ""
	}
	text := image[at:min(len(image), at+256)]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	version, _, _ := strings.Cut(string(text), " ")
	return version
}
