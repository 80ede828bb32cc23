//go:build linux

package lab

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/store"
)

// ipmitool controls a machine through ipmi_sim, which calls back to us.
func TestIPMISim(t *testing.T) {
	if _, err := exec.LookPath("ipmitool"); err != nil {
		t.Skip("no ipmitool (Debian package ipmitool)")
	}
	l := New(t)
	m := sim.NewMemory(sim.Spec{Name: "node-1", UUID: "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01", Modes: []string{sim.BIOS}}, 0)
	b := l.IPMISim(m)
	tool := func(args ...string) (string, error) {
		line := append([]string{"-I", "lanplus", "-C", "3", "-H", b.Addr.String(), "-U", b.User, "-P", b.Password}, args...)
		out, err := l.Command(t.Context(), "ipmitool", line...).CombinedOutput()
		return string(out), err
	}
	for _, tt := range []struct {
		args  string
		power store.PowerState
		boot  bmc.BootDevice
	}{
		{"chassis power status", store.PowerOff, ""},
		{"chassis bootdev pxe", store.PowerOff, bmc.PXE},
		{"chassis bootdev disk", store.PowerOff, bmc.Disk},
		{"chassis bootdev pxe options=efiboot", store.PowerOff, bmc.PXE},
		{"chassis power on", store.PowerOn, ""},
		{"chassis bootdev disk", store.PowerOn, bmc.Disk},
		{"chassis power reset", store.PowerOn, ""},
		{"chassis power soft", store.PowerOff, ""},
		{"chassis power on", store.PowerOn, ""},
		{"chassis power off", store.PowerOff, ""},
	} {
		if out, err := tool(strings.Fields(tt.args)...); err != nil {
			t.Fatalf("%s: %v: %s", tt.args, err, out)
		}
		if m.PowerState() != tt.power || m.Boot().Device != tt.boot {
			t.Errorf("after %s: power %q and boot device %q, want %q and %q", tt.args, m.PowerState(), m.Boot().Device, tt.power, tt.boot)
		}
	}
	if out, err := tool("chassis", "power", "reset"); err == nil {
		t.Errorf("a machine that is off was reset: %s", out)
	}
	out, err := tool("mc", "guid")
	if err != nil || !strings.Contains(out, "GUID") {
		t.Errorf("guid: %v: %s", err, out)
	}
}

// The Redfish service answers in the lab only, and with the certificate that
// it hands out.
func TestRedfishInLab(t *testing.T) {
	l := New(t)
	b, _ := l.Redfish(sim.NewMemory(sim.Spec{Name: "node-1"}, 0), sim.RedfishOptions{})
	url := "https://" + b.Addr.String() + "/redfish/v1/Systems/node-1"
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.CA)) {
		t.Fatal("no certificate")
	}
	inside := l.HTTPClient()
	inside.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: roots}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(b.User, b.Password)
	resp, err := inside.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %s", resp.Status)
	}
}
