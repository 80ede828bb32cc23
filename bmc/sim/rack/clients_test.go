package rack

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"bessemer/pxe"
)

// sushyStart has Ironic's own Redfish library boot a machine from the network.
const sushyStart = `
import os, sys, sushy
from sushy import auth
root = sushy.Sushy(sys.argv[1], auth=auth.SessionOrBasicAuth(sys.argv[2], os.environ["BMC_PASSWORD"]))
system = root.get_system_collection().get_members()[0]
assert system.power_state == sushy.POWER_STATE_OFF, system.power_state
system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_PXE, enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
system.reset_system(sushy.RESET_ON)
`

// TestOtherClientsDriveAMachine has clients that are not ours start machines,
// which then boot from the network up to the agent.
func TestOtherClientsDriveAMachine(t *testing.T) {
	for _, tt := range []struct {
		bmc, tool string
		missing   func() error
		start     func(m *Machine, user, password string) []*exec.Cmd
	}{
		{
			"ipmi", "ipmitool", func() error { return exec.Command("ipmitool", "-V").Run() },
			func(m *Machine, user, password string) []*exec.Cmd {
				info := m.Enrollment().DriverInfo
				tool := func(args ...string) *exec.Cmd {
					cmd := exec.Command("ipmitool", append([]string{
						"-I", "lanplus", "-E", "-H", fmt.Sprint(info["ipmi_address"]), "-p", fmt.Sprint(info["ipmi_port"]), "-U", user,
					}, args...)...)
					cmd.Env = append(os.Environ(), "IPMI_PASSWORD="+password)
					return cmd
				}
				return []*exec.Cmd{tool("chassis", "bootdev", "pxe", "options=efiboot"), tool("chassis", "power", "on")}
			},
		},
		{
			"redfish", "python3-sushy", func() error { return exec.Command("/usr/bin/python3", "-c", "import sushy").Run() },
			func(m *Machine, user, password string) []*exec.Cmd {
				cmd := exec.Command("/usr/bin/python3", "-c", sushyStart, fmt.Sprint(m.Enrollment().DriverInfo["redfish_address"]), user)
				cmd.Env = append(os.Environ(), "BMC_PASSWORD="+password, "NO_PROXY=*")
				return []*exec.Cmd{cmd}
			},
		},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			if err := tt.missing(); err != nil {
				t.Skipf("no %s: %v", tt.tool, err)
			}
			a := newAppliance(t)
			a.set(pxe.Ramdisk)
			r := newRack(t, a, func(o *Options) { o.BMC, o.Machines = tt.bmc, 1 })
			m := r.Machines()[0]
			info := m.Enrollment().DriverInfo
			user, password := fmt.Sprint(info[tt.bmc+"_username"]), fmt.Sprint(info[tt.bmc+"_password"])
			for _, cmd := range tt.start(m, user, password) {
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, strings.ReplaceAll(string(out), password, "***"))
				}
			}
			a.await() // the agent's heartbeat
			if es := journalOf(t, m); es[0].Kind != "power" || es[0].By != ByBMC || es[0].What != "on" {
				t.Errorf("the journal begins with %+v", es[0])
			}
		})
	}
}
