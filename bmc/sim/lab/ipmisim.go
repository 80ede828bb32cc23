//go:build linux

package lab

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bessemer/bmc/sim"
)

// A BMC is where a management controller listens in the lab, and who may log
// in.
type BMC struct {
	Addr     netip.Addr
	Port     int
	User     string
	Password string
	// CA is the certificate, PEM, of a controller that speaks TLS.
	CA string
}

// IPMISim starts OpenIPMI's ipmi_sim as the machine's controller: IPMI 1.5
// with MD5, and 2.0 with cipher suite 3. It is not ours, so it shows what our
// driver is worth; but it forgets the EFI and persistent bits of boot flags,
// and always reads them back as invalid. The package's TestMain must be Main.
func (l *Lab) IPMISim(m sim.Machine) BMC {
	l.t.Helper()
	if !mainCalled {
		l.t.Fatal("lab.IPMISim needs: func TestMain(m *testing.M) { lab.Main(m) }")
	}
	if _, err := exec.LookPath("ipmi_sim"); err != nil {
		l.t.Skip("no ipmi_sim (Debian package openipmi)")
	}
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	name := m.Spec().Name
	dir := filepath.Join(l.Dir, "ipmi-"+name)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	socket := filepath.Join(dir, "chassis")
	l.t.Cleanup(serveChassis(l.t, m, socket))
	b := BMC{Addr: l.Controller(), Port: 623, User: "admin", Password: "ipmi-secret"}
	files := map[string]string{
		"lan.conf": lanConf(b, name, m.Spec().UUID, fmt.Sprintf("%s=%s %s", chassisEnv, socket, self)),
		"sim.emu":  "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n",
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	p := l.Start("ipmi-"+name+".log", nil, "ipmi_sim", "-n",
		"-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "sim.emu"), "-s", filepath.Join(dir, "state"))
	l.awaitIPMI(b, p.Log)
	return b
}

// lanConf is ipmi_sim's configuration: one user, on one address.
func lanConf(b BMC, name, uuid, chassis string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "name %q\nset_working_mc 0x20\n  startlan 1\n    addr %s %d\n    priv_limit admin\n", name, b.Addr, b.Port)
	for _, level := range []string{"callback", "user", "operator", "admin"} {
		fmt.Fprintf(&s, "    allowed_auths_%s none md2 md5 straight\n", level)
	}
	fmt.Fprintf(&s, "    guid %s\n  endlan\n", strings.ReplaceAll(uuid, "-", ""))
	fmt.Fprintf(&s, "  chassis_control %q\n", chassis)
	fmt.Fprintf(&s, "  user 2 true %q %q admin 10 md2 md5 straight\n", b.User, b.Password)
	return s.String()
}

// awaitIPMI waits until the controller answers a presence ping (ASF 2.0,
// section 3.2.4.2).
func (l *Lab) awaitIPMI(b BMC, log string) {
	l.t.Helper()
	conn, err := l.DialContext(l.t.Context(), "udp", net.JoinHostPort(b.Addr.String(), fmt.Sprint(b.Port)))
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	ping := []byte{6, 0, 0xff, 6, 0, 0, 0x11, 0xbe, 0x80, 0, 0, 0}
	answer := make([]byte, 64)
	for range 100 {
		_, _ = conn.Write(ping) // refused until it listens
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err := conn.Read(answer); err == nil && n > 8 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	said, _ := os.ReadFile(log)
	l.t.Fatalf("ipmi_sim does not answer on %s:%d; it said: %s", b.Addr, b.Port, said)
}
