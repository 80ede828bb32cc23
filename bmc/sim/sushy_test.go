package sim

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/bmc"
)

// The service satisfies a client that we did not write: OpenStack's sushy.
func TestSushy(t *testing.T) {
	t.Parallel()
	const python = "/usr/bin/python3"
	if err := exec.Command(python, "-c", "import sushy").Run(); err != nil {
		t.Skip("no sushy (Debian package python3-sushy)")
	}
	for _, tt := range []struct {
		name string
		opts RedfishOptions
	}{
		{"sessions", RedfishOptions{}},
		{"basic authentication", RedfishOptions{NoSessions: true}},
		{"etags required", RedfishOptions{RequireETag: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := NewMemory(testSpec(), 30*time.Millisecond), NewMemory(Spec{Name: "other"}, 0)
			tt.opts.User, tt.opts.Password = "admin", "redfish-secret"
			rf := NewRedfish(tt.opts, a, b)
			url, ca := serveTLS(t, rf)
			cmd := exec.Command(python, "testdata/sushy_client.py", url, "admin", "redfish-secret", "node-1")
			cmd.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+ca, "PYTHONWARNINGS=ignore", "NO_PROXY=127.0.0.1")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
				t.Fatalf("%v: %s", err, out)
			}
			want := []bmc.Boot{{Device: bmc.PXE, Mode: BIOS}, {Mode: BIOS}}
			if diff := cmp.Diff(want, a.Starts()); diff != "" {
				t.Errorf("what it booted from (-want +got):\n%s", diff)
			}
		})
	}
}

func testSpec() Spec {
	return Spec{
		Name: "node-1", UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Manufacturer: "Bessemer", Model: "Simulated", Serial: "SN-1",
		MemoryMiB: 768, CPUs: 2,
		NICs: []NIC{{MAC: "52:54:00:be:55:01"}, {MAC: "52:54:00:be:55:02"}},
		Disks: []Disk{
			{Name: "Disk0", Bus: SATA, Size: 4 << 30, Serial: "DISK-A"},
			{Name: "Disk1", Bus: NVMe, Size: 8 << 30, Serial: "DISK-B"},
		},
	}
}

// serveTLS serves h on loopback and returns its address, and the file of the
// certificate to trust.
func serveTLS(t *testing.T, h http.Handler) (url, ca string) {
	t.Helper()
	cert, text, err := SelfSigned(net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Serve(lis, h, cert)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	return "https://" + lis.Addr().String(), ca
}
