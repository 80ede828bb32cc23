package ipmi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/store"
)

// chassisScript is the machine behind ipmi_sim: its power is a file.
const chassisScript = `#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2 $3" in
"get power "*) echo "power:$(cat power)" ;;
"set power "*) echo "$3" > power ;;
"set shutdown "*) echo 0 > power ;;
"set reset "*) [ "$(cat power)" = 1 ] ;;
"set boot "*) echo "$3" > boot ;;
"get boot "*) echo "boot:$(cat boot)" ;;
esac
`

const simConfig = `name "test"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 %d
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid 5a27b716724a8c409c00000000001909
  endlan
  chassis_control "%s"
  user 1 true "" "test" user 10 none md2 md5 straight
  user 2 true "%s" "%s" admin 10 none md2 md5 straight
`

const simCommands = `mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
sel_enable 0x20 1000 0x0a
mc_enable 0x20
`

// startSim starts OpenIPMI's simulator, an implementation of IPMI that is not
// ours, and returns its port.
func startSim(t *testing.T) int {
	t.Helper()
	bin, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("ipmi_sim is not installed (Debian package openipmi)")
	}
	dir, port := t.TempDir(), unused(t)
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"chassis":  {chassisScript, 0o700},
		"lan.conf": {fmt.Sprintf(simConfig, port, filepath.Join(dir, "chassis"), testUser, testPassword), 0o600},
		"sim.emu":  {simCommands, 0o600},
		"power":    {"0\n", 0o600},
		"boot":     {"default\n", 0o600},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(bin, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "sim.emu"), "-n", "-s", dir)
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
	})
	awaitSim(t, port, out.Name())
	return port
}

// awaitSim waits until the simulator answers.
func awaitSim(t *testing.T, port int, log string) {
	t.Helper()
	d := open(t, port)
	for range 50 {
		l, err := dial(t.Context(), d.s.address(), d.s.timing)
		if err != nil {
			t.Fatal(err)
		}
		_, err = probe(t.Context(), l, d.s.privilege)
		_ = l.close()
		if err == nil {
			return
		}
		sleep(t.Context(), d.s.timing.first)
	}
	raw, _ := os.ReadFile(log)
	t.Skipf("ipmi_sim does not answer: %s", raw)
}

func TestOpenIPMI(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.0", "1.5"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
				port := startSim(t)
				with := func(more ...any) *driver { return open(t, port, append(more, "ipmi_protocol_version", version)...) }
				rig := bmctest.Rig{Driver: with(), Password: testPassword, Wire: true, Unread: true, Lacks: []bmc.BootDevice{bmc.Safe}}
				if version == "2.0" { // 1.5 has no answer to a wrong password: 20 s of waiting
					rig.WrongSecret = "wrong-0816"
					rig.WrongPassword = func() bmc.Driver { return with("ipmi_password", rig.WrongSecret) }
				}
				return rig
			})
		})
	}
}

func TestOpenIPMIRefusesSuite17(t *testing.T) {
	port := startSim(t)
	if _, err := open(t, port, "ipmi_cipher_suite", "17").PowerState(t.Context()); err == nil {
		t.Skip("this ipmi_sim has cipher suite 17")
	}
	d := open(t, port)
	if s, err := d.PowerState(t.Context()); err != nil || s != store.PowerOff || d.suite != 3 {
		t.Errorf("got %q, %v with suite %d, want power off with suite 3", s, err, d.suite)
	}
	if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
		t.Error(err)
	}
	if _, err := d.Boot(t.Context()); !errors.Is(err, bmc.ErrNoReadBack) {
		t.Errorf("got %v, want ErrNoReadBack", err)
	}
}
