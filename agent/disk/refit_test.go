package disk

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/google/go-cmp/cmp"
)

// driveFiles are those of a config drive, with names that no 8.3 scheme has.
func driveFiles() map[string][]byte {
	big := make([]byte, 70_001)
	rand.NewChaCha8([32]byte{4}).Read(big)
	return map[string][]byte{
		"openstack/latest/meta_data.json":                                        []byte(`{"hostname": "n1"}`),
		"openstack/latest/user_data":                                             big,
		"openstack/latest/vendor_data.json":                                      []byte("{}"),
		"openstack/content/0000":                                                 bytes.Repeat([]byte("x"), 4096),
		"openstack/content/a-name-of-more-than-thirteen-characters.conf":         []byte("1"),
		"openstack/content/twenty-six-letters-exactly":                           []byte("2"),
		"ec2/latest/meta-data.json":                                              []byte("[]"),
		"Öffentlich.txt":                                                         []byte("names in UTF-16"),
		"deep/" + strings.Repeat("d/", 5) + "file.with.dots.and-a-rather-long.x": []byte("3"),
	}
}

// makeISO makes a file system with an independent writer.
func makeISO(t testing.TB, files map[string][]byte, o iso9660.FinalizeOptions) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "iso")
	b, err := file.CreateFromPath(path, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := iso9660.Create(b, 4<<20, 0, 2048, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	putFiles(t, fs, files)
	o.VolumeIdentifier = ConfigLabel
	if err := fs.Finalize(o); err != nil {
		t.Fatal(err)
	}
	b.Close()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func byName(files []driveFile) map[string][]byte {
	m := map[string][]byte{}
	for _, f := range files {
		m[f.path] = f.data
	}
	return m
}

func TestReadISO(t *testing.T) {
	files := driveFiles()
	for name, o := range map[string]iso9660.FinalizeOptions{"Rock Ridge": {RockRidge: true}, "with Joliet": {RockRidge: true, Joliet: true}} {
		got, err := readISO(makeISO(t, files, o))
		if diff := cmp.Diff(files, byName(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	plain, err := readISO(makeISO(t, map[string][]byte{"openstac/latest/user.txt": []byte("u")}, iso9660.FinalizeOptions{}))
	if err != nil || string(byName(plain)["openstac/latest/user.txt"]) != "u" {
		t.Errorf("plain names: %v, %v", byName(plain), err)
	}
}

func TestReadISOOfXorriso(t *testing.T) {
	xorriso, err := exec.LookPath("xorriso")
	if err != nil {
		t.Skip("needs xorriso")
	}
	files, dir := driveFiles(), t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, "in", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range []string{"-J -joliet-long", "-r"} {
		out := filepath.Join(dir, "out.iso")
		args := append([]string{"-as", "mkisofs", "-quiet", "-V", ConfigLabel, "-o", out}, strings.Fields(flags)...)
		if text, err := exec.Command(xorriso, append(args, filepath.Join(dir, "in"))...).CombinedOutput(); err != nil {
			t.Fatalf("xorriso: %v: %s", err, text)
		}
		image, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readISO(image)
		if diff := cmp.Diff(files, byName(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", flags, err, diff)
		}
	}
}

// What is written is read by our own reader, by mtools, and found right by
// fsck.
func TestMakeFAT12(t *testing.T) {
	files := driveFiles()
	image, err := makeFAT12(files2(files), ConfigLabel, 4096)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readFAT(image)
	if diff := cmp.Diff(files, byName(got)); err != nil || diff != "" {
		t.Errorf("our own reader: %v\n%s", err, diff)
	}
	if volumeLabel(image) != ConfigLabel || !isFAT(image) {
		t.Errorf("label %q", volumeLabel(image))
	}
	path := filepath.Join(t.TempDir(), "fat")
	if err := os.WriteFile(path, image, 0o644); err != nil {
		t.Fatal(err)
	}
	if fsck, err := exec.LookPath("fsck.vfat"); err == nil {
		if text, err := exec.Command(fsck, "-n", "-v", path).CombinedOutput(); err != nil {
			t.Errorf("fsck: %v: %s", err, text)
		}
	}
	if mtype, err := exec.LookPath("mtype"); err == nil {
		cmd := exec.Command(mtype, "-i", path, "::openstack/latest/user_data")
		cmd.Env = append(os.Environ(), "MTOOLS_SKIP_CHECK=1")
		if text, err := cmd.Output(); err != nil || !bytes.Equal(text, files["openstack/latest/user_data"]) {
			t.Errorf("mtools: %v, %d bytes", err, len(text))
		}
	}
}

func files2(m map[string][]byte) []driveFile {
	var out []driveFile
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, driveFile{name, m[name]})
	}
	return out
}

func TestMakeFAT12Bounds(t *testing.T) {
	many := map[string][]byte{}
	for i := range 3000 {
		many[fmt.Sprintf("d/%d", i)] = []byte{byte(i)}
	}
	many["large"] = make([]byte, 40<<20)
	image, err := makeFAT12(files2(many), ConfigLabel, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readFAT(image); err != nil || len(got) != 3001 || !slices.Equal(byName(got)["d/2999"], many["d/2999"]) {
		t.Errorf("%d files, %v", len(got), err)
	}
	flat := map[string][]byte{}
	for i := range rootEntries {
		flat[fmt.Sprint(i)] = nil
	}
	if _, err := makeFAT12(files2(flat), ConfigLabel, 4096); err == nil {
		t.Error("more files in the root than fit were taken")
	}
}

func TestConfigDriveOnLargeSectors(t *testing.T) {
	files := driveFiles()
	var fat []driveFile
	for _, f := range files2(files) {
		if !strings.HasPrefix(f.path, "Ö") {
			fat = append(fat, f)
		}
	}
	small, err := makeFAT12(fat, "other", 512)
	if err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string][]byte{
		"ISO 9660": makeISO(t, files, iso9660.FinalizeOptions{Joliet: true, RockRidge: true}), "FAT with blocks of 512": small,
	} {
		d, _ := newDisk(t, 40<<20, 4096)
		esp := espPart
		esp.First, esp.Last = 256, 511
		write(t, d, gptImage(6<<20, 4096, esp))
		if _, err := Settle(d); err != nil {
			t.Fatal(err)
		}
		p, note, err := WriteConfigDrive(d, image)
		if err != nil || !strings.Contains(note, "sectors of 4096 bytes") {
			t.Fatalf("%s: %+v, %q, %v", name, p, note, err)
		}
		f, err := OpenFAT(d, p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b, err := f.ReadFile("/openstack/latest/meta_data.json"); err != nil || string(b) != string(files["openstack/latest/meta_data.json"]) {
			t.Errorf("%s: meta data %q, %v", name, b, err)
		}
		again, _, err := WriteConfigDrive(d, image) // it is found by its label (K-25)
		if err != nil || again.Number != p.Number {
			t.Errorf("%s: the second one is in partition %d, %v, want %d", name, again.Number, err, p.Number)
		}
	}
	d, _ := newDisk(t, 40<<20, 4096)
	write(t, d, gptImage(6<<20, 4096, Partition{Type: TypeESP, UUID: espPart.UUID, First: 256, Last: 511}))
	if _, _, err := WriteConfigDrive(d, fakeISO(40<<10)); err == nil || !strings.Contains(err.Error(), "FAT file system with sectors of 4096 bytes") {
		t.Errorf("a drive that cannot be read: %v, want what to do", err)
	}
}

func FuzzReadISO(f *testing.F) {
	iso := makeISO(f, map[string][]byte{"a/b.txt": []byte("x")}, iso9660.FinalizeOptions{RockRidge: true})
	f.Add(iso[16*isoBlock:][:8*isoBlock])
	f.Fuzz(func(t *testing.T, tail []byte) {
		image := append(make([]byte, 16*isoBlock), tail...)
		files, err := readISO(image)
		if err != nil {
			return
		}
		for _, file := range files {
			if strings.Contains("/"+file.path+"/", "/../") || len(file.data) > len(image) {
				t.Errorf("file %q of %d bytes", file.path, len(file.data))
			}
		}
		if _, err := makeFAT12(files, ConfigLabel, 4096); err != nil {
			t.Skip(err)
		}
	})
}
