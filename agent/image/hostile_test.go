package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// hostile are files that have broken other readers: each must be refused with a
// sentence that names what is wrong, fast, and in little memory.
func hostile(secret string) map[string]struct {
	file      []byte
	says      string
	untouched bool // refused before the disk was written to
} {
	data := diskImage(1 << 20)
	polyglot := qcowFile{data: data}.bytes()
	copy(polyglot[510:], "\x55\xaa")
	noMagic := bytes.Clone(qcowFile{data: data}.bytes())
	binary.BigEndian.PutUint32(noMagic[4:], 77)
	short := qcowFile{data: data}.bytes()
	selfL2 := uint64(2 << 16) // the level 2 table's own cluster
	m := map[string]struct {
		file      []byte
		says      string
		untouched bool
	}{}
	add := func(name, says string, untouched bool, file []byte) {
		m[name] = struct {
			file      []byte
			says      string
			untouched bool
		}{file, says, untouched}
	}
	add("backing_abs", "backing file", true, qcowFile{data: data, backing: secret}.bytes())
	add("backing_rel", "backing file", true, qcowFile{data: data, backing: filepath.Base(secret)}.bytes())
	add("backing_json", "backing file", true, qcowFile{data: data, backing: `json:{"driver":"file","filename":"` + secret + `"}`}.bytes())
	add("backing_v2", "backing file", true, qcowFile{version: 2, data: data, backing: secret}.bytes())
	add("b_badfmt", "backing file", true, qcowFile{data: data, backing: secret, extension: 0xe2792aca, extData: "nonsense"}.bytes())
	add("b_self", "backing file", true, qcowFile{data: data, backing: "image.qcow2"}.bytes())
	add("ext_data", "another file", true, qcowFile{data: data, features: qcowDataFile}.bytes())
	add("ext_data_name", "external data file", true, qcowFile{data: data, extension: 0x44415441, extData: secret}.bytes())
	add("crypt_aes", "encrypted", true, qcowFile{data: data, crypt: 1}.bytes())
	add("crypt_luks", "encrypted", true, qcowFile{data: data, crypt: 2}.bytes())
	add("crypt_header", "encrypted", true, qcowFile{data: data, extension: 0x0537be77, extData: strings.Repeat("\x00", 16)}.bytes())
	add("cbits63", "cluster_bits is 63", true, qcowFile{data: data, bits: 63}.bytes())
	add("cbits8", "cluster_bits is 8", true, qcowFile{data: data, bits: 8}.bytes())
	add("l1huge", "level 1 table", true, qcowFile{data: data, l1Size: math.MaxUint32}.bytes())
	add("l1small", "level 1 table", true, qcowFile{data: data, size: 1 << 40}.bytes())
	add("l1_nowhere", "level 1 table is at", true, qcowFile{data: data, l1Offset: 1 << 60}.bytes())
	add("l1_unaligned", "level 1 table is at", true, qcowFile{data: data, l1Offset: 65536 + 8}.bytes())
	add("size_8E", "level 1 table", true, qcowFile{data: data, size: math.MaxInt64}.bytes())
	add("size_neg", "disk size", true, qcowFile{data: data, size: math.MaxUint64 - 511}.bytes())
	add("size_0", "disk size", true, qcowFile{l1Size: 1}.bytes())
	add("dirty", "closed properly", true, qcowFile{data: data, features: qcowDirty}.bytes())
	add("corrupt", "closed properly", true, qcowFile{data: data, features: qcowCorrupt}.bytes())
	add("extl2", "extended L2", true, qcowFile{data: data, features: qcowExtendedL2}.bytes())
	add("unknown feature", "0x8000", true, qcowFile{data: data, features: 1 << 15}.bytes())
	add("header length", "header is 8 bytes", true, qcowFile{data: data, headerBytes: 8}.bytes())
	add("compression", "contradicts", true, qcowFile{data: data, features: qcowCompression}.bytes())
	add("version 77", "version 77", true, noMagic)
	add("cut header", "cut short", true, short[:60])
	add("polyglot", "boot sector", true, polyglot)
	add("l1_oob", "behind its end", false, qcowFile{data: data, l1Entry: 1 << 40}.bytes())
	add("l2_oob", "behind its end", false, qcowFile{data: data, l2Entry: 1 << 40}.bytes())
	add("l2_huge", "behind its end", false, qcowFile{data: data, l2Entry: 0x00fffffffffffe00}.bytes())
	add("l2_zero_sectors", "", false, qcowFile{data: data, l2Entry: 1<<62 | 1}.bytes())
	add("comp_oob", "", false, qcowFile{data: data, l2Entry: 1<<62 | 1<<40}.bytes())
	add("comp_garbage", "compressed cluster", false, qcowFile{data: data, compress: "zlib", garble: true}.bytes())
	add("zstd_garbage", "compressed cluster", false, qcowFile{data: data, compress: "zstd", garble: true}.bytes())
	add("l2_loop", "", false, qcowFile{data: data, l1Entry: 1 << 16, l2Entry: selfL2}.bytes())
	add("cut tables", "", false, short[:1<<16+8])
	add("evil.vmdk", "VMDK", true, []byte("# Disk DescriptorFile\nversion=1\nRW 2048 FLAT \""+secret+"\" 0\n"))
	add("sparse.vmdk", "VMDK", true, append([]byte("KDMV"), make([]byte, 4096)...))
	add("vhdx", "VHDX", true, append([]byte("vhdxfile"), make([]byte, 4096)...))
	add("vhd", "VHD", true, append([]byte("conectix"), make([]byte, 4096)...))
	add("vdi", "VDI", true, append(append(make([]byte, 64), 0x7f, 0x10, 0xda, 0xbe), make([]byte, 512)...))
	add("zip", "zip", true, append([]byte("PK\x03\x04"), make([]byte, 512)...))
	add("bz2", "bzip2", true, append([]byte("BZh91AY"), make([]byte, 512)...))
	add("gz in gz", "second time", true, packGz(packGz(data)))
	add("error page", "HTML", true, []byte("<!DOCTYPE html><title>404</title>"))
	return m
}

func TestHostileImages(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret.txt")
	canary := strings.Repeat("CANARY-7f3a ", 6000)
	if err := os.WriteFile(secret, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	fds := openFiles(t)
	for name, h := range hostile(secret) {
		for _, packing := range []string{"", "gz"} {
			if strings.HasPrefix(name, "gz") && packing == "gz" {
				continue
			}
			d, m := newDisk(t, 4<<20)
			file := packers[packing](h.file)
			_, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file)})
			got := content(t, m)
			d.Close()
			switch {
			case name == "l2_loop" && err == nil: // a loop is only odd data; it must end, and does
			case err == nil:
				t.Errorf("%s.%s: written", name, packing)
			case !strings.Contains(err.Error(), h.says):
				t.Errorf("%s.%s: %v, want %q", name, packing, err, h.says)
			}
			if h.untouched && (!errors.Is(err, ErrFormat) || !bytes.HasPrefix(got, []byte("old data!"))) {
				t.Errorf("%s.%s: %v, want ErrFormat and an untouched disk", name, packing, err)
			}
			if err != nil {
				checkUnbootable(t, m)
			}
			if bytes.Contains(got, []byte("CANARY")) {
				t.Errorf("%s.%s: bytes of a local file are on the disk", name, packing)
			}
		}
	}
	if n := openFiles(t); n > fds {
		t.Errorf("%d files are open, %d were before", n, fds)
	}
}

func openFiles(t *testing.T) int {
	if runtime.GOOS != "linux" {
		t.Skip("counts /proc/self/fd")
	}
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestClaims(t *testing.T) {
	img := diskImage(1 << 20)
	iso := make([]byte, 64<<10)
	copy(iso[32769:], "CD001")
	hybrid := bytes.Clone(iso)
	copy(hybrid[510:], "\x55\xaa")
	q := qcowFile{data: img}.bytes()
	for _, tt := range []struct {
		name      string
		file      []byte
		claim     string
		permitted []string
		want      error
	}{
		{"qcow2 said to be raw", q, "raw", nil, ErrFormat},
		{"raw said to be qcow2", img, "qcow2", nil, ErrFormat},
		{"qcow2 said to be RAW", q, "RAW", nil, ErrFormat},
		{"packed qcow2 said to be raw", packGz(q), "raw", nil, ErrFormat},
		{"qcow2 as qcow2", q, "qcow2", []string{"raw", "qcow2"}, nil},
		{"packed qcow2 as qcow2", packZst(q), "qcow2", nil, nil},
		{"qcow2 not permitted", q, "", []string{"raw", "iso"}, ErrFormat},
		{"raw, gpt permitted", img, "", []string{"gpt"}, nil},
		{"iso", iso, "iso", []string{"iso"}, nil},
		{"hybrid iso", hybrid, "", nil, nil},
		{"hybrid iso as raw", hybrid, "raw", nil, nil},
	} {
		d, _ := newDisk(t, 4<<20)
		_, err := Write(t.Context(), &memFile{data: tt.file}, d, Options{Checksum: sha(tt.file), Claim: tt.claim, Permitted: tt.permitted})
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		d.Close()
	}
}

// A window larger than the limit must fail before the memory is taken.
func TestUnpackingAsksForTooMuchMemory(t *testing.T) {
	zst := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0, 0} // a frame with a 2 GiB window
	xz := packXz([]byte("x"))
	xz[12+2+2] = 40 // LZMA2 dictionary of 4 GiB; the header's CRC no longer fits either
	for name, file := range map[string][]byte{"zst": zst, "xz": xz} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, m := newDisk(t, 4<<20)
		_, err := Write(t.Context(), &memFile{data: file}, d, Options{Checksum: sha(file)})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "unpack ."+name) {
			t.Errorf("%s: %v, want an error of unpacking", name, err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 64 {
			t.Errorf("%s: %d MiB were allocated", name, n)
		}
		checkUnbootable(t, m)
	}
}

func FuzzCheckQcow(f *testing.F) {
	for _, h := range hostile("/x") {
		f.Add(h.file[:min(len(h.file), 512)])
	}
	f.Add(qcowFile{data: diskImage(4096), compress: "zstd"}.bytes()[:200])
	f.Fuzz(func(t *testing.T, head []byte) {
		h, err := checkQcow(head)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v is not ErrFormat", err)
			}
			return
		}
		if h.size <= 0 || h.clusterBits < 9 || h.clusterBits > 21 {
			t.Errorf("passed: %+v", h)
		}
	})
}

// FuzzExpand looks for panics and endless work in damaged tables.
func FuzzExpand(f *testing.F) {
	f.Add(uint16(3), uint64(1)<<63, true)
	f.Fuzz(func(t *testing.T, at uint16, value uint64, zlib bool) {
		q := qcowFile{bits: 9, data: diskImage(64 << 10)}
		if zlib {
			q.compress = "zlib"
		}
		file := q.bytes()
		pos := int(at) * 8 % (len(file) - 8)
		binary.BigEndian.PutUint64(file[pos:], value)
		h, err := checkQcow(file[:min(len(file), headSize)])
		if err != nil || h.size > 1<<20 {
			return
		}
		c := newCanvas(memDisk{make([]byte, 2<<20)})
		if err := c.begin(); err != nil {
			t.Fatal(err)
		}
		expand(t.Context(), bytes.NewReader(file), h, c)
	})
}
