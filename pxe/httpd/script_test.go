package httpd

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/pxe"
	"bessemer/store"
)

var update = flag.Bool("update", false, "rewrite golden files")

const base = "http://10.9.0.1:6386"

var mac = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}

func input(b pxe.Boot) scriptInput {
	return scriptInput{Boot: b, MAC: mac, Base: base, Args: []string{"console=tty0", "console=ttyS0,115200n8"}, Arch: "x86_64"}
}

func TestScripts(t *testing.T) {
	tests := []struct {
		name string
		in   scriptInput
	}{
		{"ramdisk", input(pxe.Boot{Action: pxe.Ramdisk, Args: []string{"ipa-global-request-id=req-1"}})},
		{"local", input(pxe.Boot{Action: pxe.Local})},
		{"retry", input(pxe.Boot{Action: pxe.Retry})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := render(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(got); err != nil {
				t.Error(err)
			}
			path := filepath.Join("testdata", tt.name+".ipxe")
			if *update {
				if err := errorsJoin(os.MkdirAll("testdata", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", path, diff)
			}
		})
	}
}

func errorsJoin(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestScriptsEnd follows each script while nothing answers any more.
func TestScriptsEnd(t *testing.T) {
	tests := []struct {
		name     string
		in       scriptInput
		platform string
		arch     string
		min, max int // seconds
		last     string
	}{
		{"ramdisk waits for a slow switch, then reboots", input(pxe.Boot{Action: pxe.Ramdisk}), "efi", "x86_64", 90, 120, "reboot"},
		{"ramdisk on an old iPXE", input(pxe.Boot{Action: pxe.Ramdisk}), "pcbios", "", 90, 120, "reboot"},
		{"ramdisk for x86-64 on ARM: the disk", input(pxe.Boot{Action: pxe.Ramdisk}), "efi", "arm64", 0, 0, "exit 1"},
		{"local on UEFI: next boot option", input(pxe.Boot{Action: pxe.Local}), "efi", "x86_64", 0, 0, "exit 1"},
		{"local on BIOS: next device", input(pxe.Boot{Action: pxe.Local}), "pcbios", "i386", 0, 0, "exit 1"},
		{"unknown on UEFI", input(pxe.Boot{Action: pxe.Retry}), "efi", "x86_64", 1, 10, "exit 1"},
		{"unknown on BIOS", input(pxe.Boot{Action: pxe.Retry}), "pcbios", "i386", 1, 10, "exit 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, err := render(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			slept, last, err := run(text, tt.platform, tt.arch)
			if err != nil || last != tt.last || slept < tt.min || slept > tt.max {
				t.Errorf("slept %d s, ended with %q, %v; want %d to %d s and %q", slept, last, err, tt.min, tt.max, tt.last)
			}
		})
	}
}

func TestUnknownMachineGivesUp(t *testing.T) {
	in := input(pxe.Boot{Action: pxe.Retry})
	for try := range len(tryWaits) {
		in.Try = try
		text, err := render(in)
		if err != nil || !strings.Contains(text, fmt.Sprintf("chain --replace %s/boot/ipxe/%s?try=%d", base, mac, try+1)) {
			t.Errorf("try %d: %v\n%s", try, err, text)
		}
	}
	for _, try := range []int{len(tryWaits), 1 << 40, -1} {
		in.Try = try
		if text, _ := render(in); strings.Contains(text, "chain") || !strings.Contains(text, "sanboot") {
			t.Errorf("try %d: does not boot the disk:\n%s", try, text)
		}
	}
}

var hostile = []string{
	"a\nshell", "a\rshell", "a\x00", "a b", "#comment", "${net0/mac}", "a && shell", "a||shell", "x;shell", `"quoted"`, `'q`, `a\`, "{{.Token}}",
	strings.Repeat("x", 8192), "", "a\tb", "ünicode",
}

func TestHostileArguments(t *testing.T) {
	for _, h := range hostile {
		text, err := render(input(pxe.Boot{Action: pxe.Ramdisk, Args: []string{"ok=1", h}}))
		if err == nil {
			t.Errorf("%.30q was taken", h)
		}
		if cerr := check(text); cerr != nil {
			t.Errorf("%.30q: %v", h, cerr)
		}
		if strings.Contains(text, "kernel http") || h != "" && strings.Contains(text, h) {
			t.Errorf("%.30q: script still loads something:\n%s", h, text)
		}
	}
}

// FuzzRender gives any argument to a script. Either it is refused, or it is one
// word of the kernel's line and the rest of the script is as without it.
func FuzzRender(f *testing.F) {
	for _, h := range append(hostile, "console=ttyS0", "a=b,c:d/e@f") {
		f.Add(h, "x")
		f.Add("x=y", h)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		text, err := render(input(pxe.Boot{Action: pxe.Ramdisk, Args: []string{one, two}}))
		if cerr := check(text); cerr != nil {
			t.Fatalf("%q %q: %v\n%s", one, two, cerr, text)
		}
		if err != nil {
			return
		}
		plain, _ := render(input(pxe.Boot{Action: pxe.Ramdisk}))
		want, _ := lex(plain)
		got, _ := lex(text)
		if len(got) != len(want) {
			t.Fatalf("%q %q: %d commands, want %d", one, two, len(got), len(want))
		}
		for i := range got {
			w := want[i].words
			if w[0] == "kernel" {
				w = append(slices.Clone(w), one, two)
			}
			if !slices.Equal(got[i].words, w) {
				t.Fatalf("%q %q: command %q, want %q", one, two, got[i].words, w)
			}
		}
	})
}

// efiKernel is the beginning of a kernel that is an EFI program.
func efiKernel(machine uint16) []byte {
	b := make([]byte, 1024)
	copy(b, "MZ")
	b[0x3c] = 0x80
	copy(b[0x80:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[0x84:], machine)
	return b
}

func TestKernelArch(t *testing.T) {
	bios := make([]byte, 1024)
	copy(bios[0x202:], "HdrS")
	far := efiKernel(0x8664)
	binary.LittleEndian.PutUint32(far[0x3c:], 0xfffffffe)
	for name, tt := range map[string]struct {
		head []byte
		want string
	}{
		"x86-64": {efiKernel(0x8664), "x86_64"}, "ARM": {efiKernel(0xaa64), "aarch64"}, "no EFI stub": {bios, "x86_64"},
		"unknown machine": {efiKernel(0x1234), ""}, "header far away": {far, ""}, "short": {efiKernel(0x8664)[:100], ""}, "empty": {nil, ""},
	} {
		if got := kernelArch(tt.head); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func FuzzKernelArch(f *testing.F) {
	f.Add(efiKernel(0x8664))
	f.Fuzz(func(_ *testing.T, b []byte) { kernelArch(b) })
}

func TestMachineThatCannotRunTheRamdisk(t *testing.T) {
	s := newServer(t)
	ask := func(query string) string {
		return s.do("GET", "/boot/ipxe/"+mac.String()+query, "10.9.0.50").Body.String()
	}
	if text := ask(""); strings.Contains(text, "buildarch") {
		t.Errorf("a kernel that does not say its architecture keeps machines out:\n%s", text)
	}
	s.kernel(t, efiKernel(0x8664))
	for _, query := range []string{"", "?buildarch=x86_64", "?buildarch=i386", "?buildarch=none", "?buildarch="} {
		if text := ask(query); !strings.Contains(text, "kernel http") || !strings.Contains(text, "iseq ${buildarch} arm64 && goto other") {
			t.Errorf("%q does not get the ramdisk:\n%s", query, text)
		}
	}
	text := ask("?buildarch=arm64")
	slept, last, err := run(text, "efi", "arm64")
	if err := errors.Join(err, check(text)); err != nil || strings.Contains(text, "kernel") || slept != 30 || last != "exit 1" {
		t.Errorf("slept %d s, ended with %q, %v:\n%s", slept, last, err, text)
	}
	all := s.rec.Messages()
	if m := all[len(all)-1]; m.Outcome != store.Failed || !strings.Contains(m.Error, "the machine is aarch64, the deploy ramdisk is for x86_64") {
		t.Errorf("the arrow back says %+v", m)
	}
	if !strings.Contains(s.log.String(), "the machine is aarch64") {
		t.Error("not logged")
	}
}
