package ipxe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tinkerbell/ipxedust/binary"

	"bessemer/pxe"
)

func TestBuiltinHasEveryBinary(t *testing.T) {
	files := Builtin()
	for _, name := range []string{pxe.NBPBIOS, pxe.NBPX64, pxe.NBPARM64} {
		if len(files[name]) < 50_000 || len(files.Digest(name)) != 64 {
			t.Errorf("%s has %d bytes", name, len(files[name]))
		}
	}
	files["x"] = nil
	if Builtin().Has("x") {
		t.Error("a change to one copy shows in the next")
	}
}

// TestOurScriptIsEmbedded fails when the module's binaries change so that the
// script is not replaced any more.
func TestOurScriptIsEmbedded(t *testing.T) {
	for name, original := range map[string][]byte{pxe.NBPX64: binary.IpxeEFI, pxe.NBPARM64: binary.SNP} {
		got := Builtin()[name]
		if len(got) != len(original) {
			t.Errorf("%s: size changed from %d to %d", name, len(original), len(got))
		}
		if bytes.Count(got, embedded) != 1 {
			t.Errorf("%s does not contain our script", name)
		}
		for _, left := range []string{"Tinkerbell", "Neverland", "Ctrl-B for the iPXE command line...", "vlan interface"} {
			if bytes.Contains(got, []byte("\n"+left)) || bytes.Contains(got, []byte("user-class "+left)) {
				t.Errorf("%s still says %q", name, left)
			}
		}
		if bytes.Contains(original, embedded) {
			t.Errorf("%s: the module's own bytes were changed", name)
		}
	}
}

func TestRescriptRefuses(t *testing.T) {
	whole := append(append(bytes.Clone(scriptBegin), "stuff\n"...), scriptEnd...)
	tests := map[string]struct{ content, script []byte }{
		"no beginning": {whole[5:], nil},
		"no end":       {whole[:len(whole)-3], nil},
		"no room":      {whole, bytes.Repeat([]byte("x"), len(whole)+1)},
	}
	for name, tt := range tests {
		if _, err := rescript(tt.content, tt.script); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	got, err := rescript(append([]byte("MZ"), whole...), []byte("#!ipxe\n"))
	if err != nil || len(got) != len(whole)+2 || strings.TrimRight(string(got), "\n") != "MZ#!ipxe" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestLoadOverrides(t *testing.T) {
	dir := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(pxe.NBPX64, "mine")
	put(pxe.NBPIA32, "added")
	put(".hidden", "no")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if string(files[pxe.NBPX64]) != "mine" || string(files[pxe.NBPIA32]) != "added" || !files.Has(pxe.NBPBIOS) || len(files) != 4 {
		t.Errorf("got %v", files.Names())
	}
}

func TestLoadRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(dir string) error{
		"link to outside": func(dir string) error { return os.Symlink(secret, filepath.Join(dir, "a.efi")) },
		"link upwards":    func(dir string) error { return os.Symlink("../"+filepath.Base(dir), filepath.Join(dir, "a.efi")) },
		"empty file":      func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.efi"), nil, 0o644) },
		"name with blank": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a b"), []byte("x"), 0o644) },
		"too large":       func(dir string) error { return sparse(filepath.Join(dir, "a.efi"), maxFile+1) },
	}
	for name, make := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := make(dir); err != nil {
				t.Fatal(err)
			}
			files, err := Load(dir)
			if err == nil {
				t.Errorf("took %v", files.Names())
			}
		})
	}
	if files, err := Load(filepath.Join(t.TempDir(), "none")); err != nil || len(files) != 3 {
		t.Errorf("no directory: %v, %v", files.Names(), err)
	}
}

func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

func TestLicencesNameTheSource(t *testing.T) {
	l := Licences()
	if len(l) != 1 || !strings.HasPrefix(l[0].SPDX, "GPL-2.0") || !strings.Contains(l[0].Source, l[0].Version) || len(l[0].Files) != 3 {
		t.Errorf("got %+v", l)
	}
}
