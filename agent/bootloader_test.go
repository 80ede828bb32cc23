package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"bessemer/agent/hw"
	"bessemer/agent/wire"
)

func TestInstallBootloader(t *testing.T) {
	csv := func(s string) string { return utf16le(s) }
	for _, tt := range []struct {
		name   string
		esp    map[string]string // nil: an image without a partition table
		mbr    bool              // the image has boot code in its first sector
		efi    *hw.FakeEFI
		arch   string
		mode   string
		says   string // in the result, or in the error
		failed bool
		loader string
	}{
		{"CSV", debianESP, false, &hw.FakeEFI{}, "x86_64", "uefi", "debian", false, `\EFI\debian\shimx64.efi`},
		{"no CSV, shim", map[string]string{"/EFI/rocky/shimx64.efi": "s", "/EFI/rocky/grubx64.efi": "g"}, false, &hw.FakeEFI{}, "x86_64", "uefi", "rocky", false, `\EFI\rocky\shimx64.efi`},
		{"no shim, grub", map[string]string{"/EFI/arch/grubx64.efi": "g", "/EFI/BOOT/BOOTX64.EFI": "f"}, false, &hw.FakeEFI{}, "x86_64", "", "arch", false, `\EFI\arch\grubx64.efi`},
		{"fallback only", map[string]string{"/EFI/BOOT/BOOTX64.EFI": "f"}, false, &hw.FakeEFI{}, "x86_64", "uefi", "Bessemer", false, `\EFI\BOOT\BOOTX64.EFI`},
		{"CSV naming a missing file", map[string]string{"/EFI/x/BOOT.CSV": csv("gone.efi,x,,\n"), "/EFI/BOOT/BOOTX64.EFI": "f"}, false, &hw.FakeEFI{}, "x86_64", "uefi", "BOOTX64", false, `\EFI\BOOT\BOOTX64.EFI`},
		{"CSV for two architectures", map[string]string{"/EFI/x/shimaa64.efi": "a", "/EFI/x/shimx64.efi": "b", "/EFI/x/BOOT.CSV": csv("shimaa64.efi,arm,,\nshimx64.efi,intel,,\n")}, false, &hw.FakeEFI{}, "x86_64", "uefi", "intel", false, `\EFI\x\shimx64.efi`},
		{"aarch64", map[string]string{"/EFI/x/shimaa64.efi": "a", "/EFI/x/shimx64.efi": "b", "/EFI/x/BOOTAA64.CSV": csv("shimaa64.efi,arm,,\n")}, false, &hw.FakeEFI{}, "aarch64", "uefi", "arm", false, `\EFI\x\shimaa64.efi`},
		{"wrong architecture", map[string]string{"/EFI/BOOT/BOOTAA64.EFI": "f"}, false, &hw.FakeEFI{}, "x86_64", "uefi", "no boot loader for x86_64", true, ""},
		{"NVRAM full, fallback", debianESP, false, &hw.FakeEFI{Full: true}, "x86_64", "uefi", "will find /EFI/BOOT/BOOTX64.EFI", false, ""},
		{"NVRAM full, no fallback", map[string]string{"/EFI/x/shimx64.efi": "s"}, false, &hw.FakeEFI{Full: true}, "x86_64", "uefi", "no space", true, ""},
		{"UEFI wanted, ramdisk by BIOS", debianESP, false, nil, "x86_64", "uefi", "booted by BIOS", false, ""},
		{"UEFI wanted, ramdisk by BIOS, no fallback", map[string]string{"/EFI/x/shimx64.efi": "s"}, false, nil, "x86_64", "uefi", "mismatch", true, ""},
		{"BIOS image on UEFI", nil, true, &hw.FakeEFI{}, "x86_64", "uefi", "no EFI system partition", true, ""},
		{"UEFI image on BIOS", debianESP, false, nil, "x86_64", "bios", "no boot code for BIOS", true, ""},
		{"BIOS", nil, true, nil, "x86_64", "bios", "own boot code", false, ""},
		{"BIOS by default", nil, true, nil, "x86_64", "", "own boot code", false, ""},
		{"hybrid on BIOS", debianESP, true, nil, "x86_64", "bios", "own boot code", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.machine.Firmware = tt.efi
			r.machine.Hardware.CPU.Architecture = tt.arch
			r.start()
			img := make([]byte, 1<<20)
			copy(img[510:], "\x55\xaa")
			if tt.esp != nil {
				img = makeImage(t, tt.esp)
			}
			copy(img[:440], make([]byte, 440))
			if tt.mbr {
				copy(img, "boot code")
			}
			if c := r.tryImage(map[string]any{"image_info": imageInfo(r.server.put("i", img), img)}, nil); c.Error != nil {
				t.Fatalf("write_image: %+v", c.Error)
			}
			c := r.command("image.install_bootloader", map[string]any{"root_uuid": "x", "target_boot_mode": tt.mode}, true)
			said := ""
			if c.Error != nil {
				said = c.Error.Details
			} else {
				said = c.Result["result"].(string)
			}
			if (c.Status == wire.Failed) != tt.failed || !strings.Contains(said, tt.says) {
				t.Errorf("%s %q, want failed=%v with %q", c.Status, said, tt.failed, tt.says)
			}
			var loaders []string
			if tt.efi != nil {
				entries, _ := tt.efi.Entries()
				for _, e := range entries {
					loaders = append(loaders, e.Loader)
				}
			}
			if got := strings.Join(loaders, " "); got != tt.loader {
				t.Errorf("boot entries for %q, want %q", got, tt.loader)
			}
			if c.Error == nil && c.Result["boot_entry"] != (tt.loader != "") {
				t.Errorf("says that it has made an entry: %v, want %v", c.Result["boot_entry"], tt.loader != "")
			}
		})
	}
}

func TestInstallBootloaderBeforeAnImage(t *testing.T) {
	r := newRig(t).start()
	if c := r.run("image.install_bootloader", nil); c.Error == nil || !strings.Contains(c.Error.Details, "no image was written") {
		t.Errorf("got %+v", c)
	}
	if c := r.command("standby.get_partition_uuids", nil, true); len(c.Result) != 0 {
		t.Errorf("partitions before an image: %v", c.Result)
	}
}

func TestParseBootCSV(t *testing.T) {
	line := "shimx64.efi,debian,,This is the boot entry for debian\n"
	be := func(s string) string {
		le := []byte(utf16le(s))
		for i := 0; i+1 < len(le); i += 2 {
			le[i], le[i+1] = le[i+1], le[i]
		}
		return string(le)
	}
	for name, text := range map[string]string{
		"LE": utf16le(line), "LE with mark": "\xff\xfe" + utf16le(line), "BE": be(line), "BE with mark": "\xfe\xff" + be(line),
		"UTF-8": line, "UTF-8 with mark": "\ufeff" + line, "no newline": utf16le(strings.TrimSpace(line)), "ends in zero": utf16le(line + "\x00"),
		"CRLF": utf16le(strings.ReplaceAll(line, "\n", "\r\n")),
	} {
		got := parseBootCSV([]byte(text))
		if len(got) != 1 || got[0] != (loader{"debian", "shimx64.efi"}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for _, bad := range []string{"", "x", "no comma.efi", "../../evil.efi,x,,", `a\b.efi,x,,`, "not-a-loader.txt,x,,", "a.efi,,,", "a.efi,\x01,,"} {
		if got := parseBootCSV([]byte(utf16le(bad))); len(got) != 0 {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func FuzzBootCSV(f *testing.F) {
	f.Add([]byte(utf16le("shimx64.efi,debian,,x\n")))
	f.Add([]byte("a.efi,b,,\n"))
	f.Add([]byte(utf16le("a.efi," + strings.Repeat("ü", 100) + ",,x\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range parseBootCSV(b) {
			if l.label == "" || utf8.RuneCountInString(l.label) > 64 || strings.ContainsAny(l.path, `/\`) {
				t.Errorf("got %+q", l)
			}
		}
	})
}
