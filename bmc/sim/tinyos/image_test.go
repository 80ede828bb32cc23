package tinyos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestImageIsFixed: who has stored the image's checksum must find it again.
func TestImageIsFixed(t *testing.T) {
	for name, image := range map[string][]byte{
		"GPT": Image(), "MBR": MBRImage(),
	} {
		sum := sha256.Sum256(image)
		if got := hex.EncodeToString(sum[:]); got != fixed[name] {
			t.Errorf("%s image is %s, was %s", name, got, fixed[name])
		}
	}
}

var fixed = map[string]string{
	"GPT": "18c3abcf17287304f491912ef96bb98fbc06b615e14a9c192a94efb8e9940894",
	"MBR": "8bc3564bcafbe3396f554c7d520839f8981d60c34511483ea12b2e7dc024bd39",
}

// TestSgdisk has the tables judged by another program.
func TestSgdisk(t *testing.T) {
	sgdisk, err := exec.LookPath("sgdisk")
	if err != nil {
		t.Skip("needs sgdisk")
	}
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, Image(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(sgdisk, "-v", "-p", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("No problems found")) || !bytes.Contains(out, []byte(rootName)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestQEMU boots the images for real, by both kinds of firmware and from
// sectors of both sizes, until they print their line on the serial port.
func TestQEMU(t *testing.T) {
	if testing.Short() {
		t.Skip("boots machines")
	}
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("needs qemu-system-x86_64")
	}
	const ovmf = "/usr/share/OVMF/OVMF_CODE_4M.fd"
	dir := t.TempDir()
	for _, tt := range []struct {
		name  string
		image []byte
		disk  string
		uefi  bool
	}{
		{"BIOS", Image(), "virtio-blk-pci", false},
		{"BIOS MBR", MBRImage(), "virtio-blk-pci", false},
		{"UEFI", Image(), "virtio-blk-pci", true},
		{"UEFI MBR", MBRImage(), "virtio-blk-pci", true},
		{"UEFI 4096", Image(), "virtio-blk-pci,logical_block_size=4096,physical_block_size=4096", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"-machine", "q35", "-m", "256", "-display", "none", "-nodefaults", "-no-reboot", "-net", "none", "-serial", "stdio", "-monitor", "none"}
			if tt.uefi {
				if _, err := os.Stat(ovmf); err != nil {
					t.Skip("needs OVMF")
				}
				args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+ovmf)
			}
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if err := os.WriteFile(path, tt.image, 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-drive", "if=none,id=d,format=raw,snapshot=on,file="+path, "-device", tt.disk+",drive=d,bootindex=1")
			if out := boot(t, qemu, args); !strings.Contains(out, strings.TrimSpace(message)) {
				t.Errorf("the console has no %q:\n%s", message, out)
			}
		})
	}
}

// boot runs QEMU until the message is on the console, or for minutes: the host
// may be busy.
func boot(t *testing.T, qemu string, args []string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for p := make([]byte, 4096); !bytes.Contains(seen.Bytes(), []byte(strings.TrimSpace(message))); {
		n, err := out.Read(p)
		seen.Write(p[:n])
		if err != nil {
			break
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
	return seen.String()
}
