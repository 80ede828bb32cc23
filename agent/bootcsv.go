package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"bessemer/agent/disk"
)

// loader is a boot loader on an EFI system partition.
type loader struct {
	label string // of its boot entry
	path  string // "/EFI/debian/shimx64.efi"
}

// defaultLabel is the entry's label when the image does not name one.
const defaultLabel = "Bessemer"

// suffixes are how file names end for an architecture (U-03).
var suffixes = map[string]string{"x86_64": "x64", "aarch64": "aa64", "arm64": "aa64", "riscv64": "riscv64", "i686": "ia32"}

func suffix(arch string) string {
	if s, ok := suffixes[arch]; ok {
		return s
	}
	return "x64"
}

// fallbackName is the removable-media loader's name (UEFI 2.10, 3.5.1.1).
func fallbackName(arch string) string { return "BOOT" + strings.ToUpper(suffix(arch)) + ".EFI" }

// findLoader chooses the loader: the one that an operating system's BOOT.CSV
// names (U-05), else a shim, else a grub or systemd-boot, else the
// removable-media one (U-04).
func findLoader(f *disk.FAT, arch string) (loader, bool) {
	dirs := f.Names("/EFI")
	sfx := suffix(arch)
	for _, dir := range dirs {
		if l, ok := fromCSV(f, "/EFI/"+dir, sfx); ok {
			return l, true
		}
	}
	for _, stem := range []string{"shim", "grub", "systemd-boot"} {
		for _, dir := range dirs {
			if p, ok := f.Find("/EFI/" + dir + "/" + stem + sfx + ".efi"); ok && !strings.EqualFold(dir, "BOOT") {
				return loader{dir, p}, true
			}
		}
	}
	if p, ok := f.Find("/EFI/BOOT/" + fallbackName(arch)); ok {
		return loader{defaultLabel, p}, true
	}
	return loader{}, false
}

// fromCSV looks for BOOTX64.CSV and BOOT.CSV in an operating system's folder.
// The files that they name must be there; one for our architecture is preferred.
func fromCSV(f *disk.FAT, dir, sfx string) (loader, bool) {
	var other loader
	for _, name := range []string{"BOOT" + strings.ToUpper(sfx) + ".CSV", "BOOT.CSV"} {
		b, err := f.ReadFile(dir + "/" + name)
		if err != nil {
			continue
		}
		for _, l := range parseBootCSV(b) {
			p, ok := f.Find(dir + "/" + l.path)
			switch {
			case !ok:
			case strings.HasSuffix(strings.ToLower(p), sfx+".efi"):
				return loader{l.label, p}, true
			case other.path == "" && !named(p):
				other = loader{l.label, p}
			}
		}
	}
	return other, other.path != ""
}

// named reports whether a file's name says an architecture.
func named(path string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(strings.ToLower(path), s+".efi") {
			return true
		}
	}
	return false
}

// parseBootCSV reads the lines "file,label,options,description" that shim's
// fallback loader reads. They are UTF-16LE with or without a mark, by some
// authors UTF-16BE or UTF-8 (U-05).
func parseBootCSV(b []byte) []loader {
	var out []loader
	for line := range strings.Lines(decodeUTF16(b)) {
		f := strings.Split(strings.TrimSpace(strings.Trim(line, "\x00")), ",")
		file := strings.TrimSpace(f[0])
		if len(f) < 2 || !strings.HasSuffix(strings.ToLower(file), ".efi") || strings.ContainsAny(file, `/\`) {
			continue
		}
		if label := cleanLabel(f[1]); label != "" {
			out = append(out, loader{label, file})
		}
		if len(out) == 16 {
			break
		}
	}
	return out
}

func decodeUTF16(b []byte) string {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		b = b[2:]
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		b, order = b[2:], binary.BigEndian
	case len(b) > 1 && b[0] == 0 && b[1] != 0:
		order = binary.BigEndian
	case len(b) > 1 && b[1] != 0:
		return strings.TrimPrefix(string(b), "\ufeff")
	}
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = order.Uint16(b[2*i:])
	}
	return string(utf16.Decode(u))
}

// cleanLabel keeps what a firmware's menu can show, at most 64 characters.
func cleanLabel(s string) string {
	return fmt.Sprintf("%.64s", strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(s)))
}
