package agent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/klauspost/compress/zstd"
)

// makeImage makes a disk image with a GPT, an EFI system partition with the
// given files, and a root partition, by an independent writer.
func makeImage(t *testing.T, files map[string]string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.raw")
	d, err := diskfs.Create(path, 8<<20, diskfs.SectorSize512)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Partition(&gpt.Table{ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: 2048, Size: 2 << 20, Type: gpt.EFISystemPartition, Name: "esp"},
		{Index: 2, Start: 2048 + 2<<11, Size: 4 << 20, Type: gpt.LinuxFilesystem, Name: "root"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := d.CreateFilesystem(disk.FilesystemSpec{Partition: 1, FSType: filesystem.TypeFat12, VolumeLabel: "ESP"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := fs.Mkdir(filepath.Dir(name)); err != nil {
			t.Fatal(err)
		}
		w, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	d.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rand.NewChaCha8([32]byte{3}).Read(b[4<<20 : 5<<20])
	return b
}

func utf16le(s string) string {
	var b []byte
	for _, r := range s {
		b = binary.LittleEndian.AppendUint16(b, uint16(r))
	}
	return string(b)
}

var debianESP = map[string]string{
	"/EFI/debian/shimx64.efi": "shim", "/EFI/debian/grubx64.efi": "grub",
	"/EFI/debian/BOOTX64.CSV": "\xff\xfe" + utf16le("shimx64.efi,debian,,This is the boot entry for debian\n"),
	"/EFI/BOOT/BOOTX64.EFI":   "fallback",
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func zst(b []byte) []byte {
	e, _ := zstd.NewWriter(nil)
	return e.EncodeAll(b, nil)
}

func imageInfo(url string, b []byte) map[string]any {
	return map[string]any{"id": "img", "urls": []string{url}, "os_hash_algo": "sha256", "os_hash_value": hexSum(b)}
}

// configISO has what makes a config drive out.
func configISO(n int) []byte {
	b := make([]byte, n)
	copy(b[33<<10:], bytes.Repeat([]byte("cfg "), n/4))
	copy(b[32768:], "\x01CD001\x01")
	copy(b[32808:], "config-2                        ")
	return b
}

func packDrive(iso []byte) string {
	var o bytes.Buffer
	z := gzip.NewWriter(&o)
	z.Write(iso)
	z.Close()
	return base64.StdEncoding.EncodeToString(o.Bytes())
}
