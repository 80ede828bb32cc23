package ipmi_test

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	simipmi "bessemer/bmc/sim/ipmi"
)

// tool runs ipmitool against a port, and returns what it prints.
func tool(t *testing.T, port int, version []string, args ...string) (string, error) {
	t.Helper()
	all := append([]string{"-H", "127.0.0.1", "-p", strconv.Itoa(port), "-U", testUser, "-E", "-N", "2", "-R", "2"}, version...)
	cmd := exec.CommandContext(t.Context(), "ipmitool", append(all, args...)...)
	cmd.Env = append(cmd.Environ(), "IPMITOOL_PASSWORD="+testPassword, "IPMI_PASSWORD="+testPassword)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var lanplus = []string{"-I", "lanplus"}

// TestIPMITool has ipmitool, a client that is not ours, do all that it can.
func TestIPMITool(t *testing.T) {
	needTool(t)
	t.Parallel()
	r := newRig(t, simipmi.Options{})
	r.Log("Critical", "fan 1 failed")
	for _, tt := range []struct {
		args string
		want []string // all that must be in what it prints, and no "!"
	}{
		{"mc info", []string{"IPMI Version              : 2.0", "Manufacturer ID           : 674", "Dell"}},
		{"mc guid", []string{"16b7275a-4a72-508c-9c00-000000001909"}},
		{"mc selftest", []string{"passed"}},
		{"chassis status", []string{"System Power         : off"}},
		{"chassis power on", []string{"Up/On"}},
		{"chassis power status", []string{"is on"}},
		{"chassis power reset", []string{"Reset"}},
		{"chassis power cycle", []string{"Cycle"}},
		{"chassis power soft", []string{"Soft"}},
		{"chassis power status", []string{"is off"}},
		{"chassis power on", []string{"Up/On"}},
		{"chassis power off", []string{"Down/Off"}},
		{"chassis power status", []string{"is off"}},
		{"chassis bootdev pxe options=efiboot,persistent", []string{"Set Boot Device to pxe"}},
		{"chassis bootparam get 5", []string{"Boot Flag Valid", "all future boots", "EFI boot", "Force PXE"}},
		{"chassis bootdev disk", []string{"Set Boot Device to disk"}},
		{"chassis bootparam get 5", []string{"Boot Flag Valid", "only next boot", "BIOS PC Compatible", "Force Boot from default Hard-Drive"}},
		{"sdr list", []string{"Inlet Temp", "degrees C", "Fan1", "RPM", "Pwr Consumption", "Watts", "12.10 Volts", "ok"}},
		{"sdr elist all", []string{"FRU node-1", "BMC node-1"}},
		{"sensor", []string{"CPU1 Temp", "95.000", "12V", "13.200"}},
		{"sel info", []string{"Entries"}},
		{"sel list", []string{"System Event", "Transition to Critical"}},
		{"sel time get", []string{"/"}},
		{"sel clear", []string{"Clearing SEL"}},
		{"sel list", []string{"SEL has no entries"}},
		{"fru print", []string{"Dell Inc.", "PowerEdge R640", "CZ1234"}},
		{"lan print 1", []string{"127.0.0.1", "52:54:00:be:55:81", "Cipher Suite Priv Max", "3,17"}},
		{"user list 1", []string{"root", "ADMINISTRATOR"}},
		{"channel info 1", []string{"802.3 LAN", "multi-session"}},
		{"channel getciphers ipmi 1", []string{"17", "hmac_sha256"}},
		{"session info active", []string{"user id                       : 2"}},
		{"dcmi power reading", []string{"Watts"}},
		{"raw 0x00 0x01", []string{"20 00 00 00"}},
	} {
		r.tool(t, lanplus, tt.args, tt.want...)
	}
}

func (r *rig) tool(t *testing.T, version []string, args string, wants ...string) {
	t.Helper()
	out, err := tool(t, r.port, version, strings.Fields(args)...)
	if err != nil {
		t.Errorf("%s: %v: %s", args, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("%s: %q is not in:\n%s", args, want, out)
		}
	}
}

// TestIPMIToolVersions logs in by each version and cipher suite, and by those
// that are not to be had.
func TestIPMIToolVersions(t *testing.T) {
	needTool(t)
	t.Parallel()
	r := newRig(t, simipmi.Options{})
	for _, version := range [][]string{{"-I", "lanplus", "-C", "3"}, {"-I", "lanplus", "-C", "17"}, {"-I", "lanplus", "-L", "OPERATOR"}, {"-I", "lan"}} {
		r.tool(t, version, "chassis power status", "is off")
	}
	for _, version := range [][]string{{"-I", "lanplus", "-C", "0"}, {"-I", "lanplus", "-C", "1"}, {"-I", "lanplus", "-C", "2"}, {"-I", "lan", "-A", "NONE"}} {
		if out, err := tool(t, r.port, version, "chassis", "power", "status"); err == nil {
			t.Errorf("%v: logged in: %s", version, out)
		}
	}
}

func needTool(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ipmitool"); err != nil {
		t.Skip("ipmitool is not installed")
	}
}
