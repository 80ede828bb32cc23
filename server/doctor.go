package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"bessemer/configs"
	"bessemer/pxe/dhcp"
	"bessemer/pxe/ramdisk"
)

// A Finding is what the doctor has to say about one thing.
type Finding struct {
	What string `json:"what"`
	Well bool   `json:"well"`
	// Grave findings keep the appliance from starting or from booting
	// machines; the others are worth knowing.
	Grave bool   `json:"grave"`
	Says  string `json:"says"`
	Fix   string `json:"fix,omitempty"` // what to do, as a command where there is one
}

// Doctor looks at this host and says what is missing for the configuration,
// and how to mend it. It changes nothing.
func Doctor(ctx context.Context, c configs.Config) []Finding {
	fs := []Finding{checkDataDir(c), checkAPIPort(c), checkAgent(c), checkRamdisk(c), checkSpace(c)}
	l, err := findLink(c.Provisioning)
	switch {
	case err != nil:
		text, fix, _ := strings.Cut(err.Error(), "; ")
		return append(fs, Finding{What: "provisioning interface", Grave: true, Says: text, Fix: fix})
	case l == nil:
		return append(fs, Finding{
			What: "provisioning interface", Says: "none is set, so no machine can boot from here",
			Fix: "name the interface towards the machines: --provisioning-interface " + strings.Join(interfaceNames(), " or "),
		})
	}
	if l.simulated() {
		return append(fs, checkSimulated(c, l)...)
	}
	fs = append(fs, Finding{What: "provisioning interface", Well: true, Says: fmt.Sprintf("%s has %s in %s", l.name, l.addr, l.subnet)})
	fs = append(fs, checkTCP("provisioning port", fmt.Sprintf("%s:%d", l.addr, c.Provisioning.Port)), checkCapabilities())
	if c.TFTP.Enabled {
		fs = append(fs, checkUDP("TFTP port", fmt.Sprintf("%s:69", l.addr)))
	}
	return append(fs, checkDHCP(ctx, c.DHCP, l)...)
}

// checkSimulated looks at what simulated machines need, which is no more than
// loopback.
func checkSimulated(c configs.Config, l *link) []Finding {
	fs := []Finding{{What: "provisioning interface", Well: true, Says: "simulated: machines get addresses of " + l.subnet.String() + " on loopback"}}
	if c.Provisioning.Port != 0 {
		fs = append(fs, checkTCP("provisioning port", fmt.Sprintf("%s:%d", l.addr, c.Provisioning.Port)))
	}
	if _, _, err := l.dhcpRange(c.DHCP.Range); err != nil {
		fs = append(fs, Finding{What: "DHCP range", Grave: true, Says: err.Error(), Fix: "set dhcp.range to addresses of " + l.subnet.String()})
	}
	return fs
}

func checkDataDir(c configs.Config) Finding {
	f := Finding{What: "data directory", Grave: true}
	info, err := os.Stat(c.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.Well, f.Says = true, c.Dir()+" will be made at the first start"
	case err != nil:
		f.Says, f.Fix = err.Error(), "choose another: --data-dir DIR"
	case !info.IsDir():
		f.Says, f.Fix = c.Dir()+" is not a directory", "choose another: --data-dir DIR"
	case info.Mode().Perm()&0o077 != 0:
		f.Says, f.Fix = fmt.Sprintf("%s can be read by others (%v)", c.Dir(), info.Mode().Perm()), "chmod 700 "+c.Dir()
	case syscall.Access(c.Dir(), 0o3) != nil:
		f.Says, f.Fix = "cannot write to "+c.Dir(), "run as its owner, or choose another: --data-dir DIR"
	default:
		f.Well, f.Says = true, c.Dir()
	}
	return f
}

func checkSpace(c configs.Config) Finding {
	f := Finding{What: "free space"}
	dir := c.Dir()
	var st syscall.Statfs_t
	for syscall.Statfs(dir, &st) != nil && dir != "/" {
		dir = dir[:max(1, strings.LastIndex(strings.TrimRight(dir, "/"), "/"))]
	}
	free := st.Bavail * uint64(st.Bsize) >> 20
	f.Well = free > 2048
	f.Says = fmt.Sprintf("%d MB on the disk of %s", free, c.Dir())
	if !f.Well {
		f.Fix = "images need room; move the data directory: --data-dir DIR"
	}
	return f
}

func checkAPIPort(c configs.Config) Finding {
	f := checkTCP("API port", c.API.Listen)
	if !f.Well && strings.Contains(f.Says, "in use") {
		f.Fix = "stop what uses it, perhaps a Bessemer that runs already, or choose another: --api-listen ADDRESS:PORT"
	}
	return f
}

func checkTCP(what, addr string) Finding {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return Finding{What: what, Grave: true, Says: addr + ": " + plain(err), Fix: "choose another port or address, or stop what uses it: ss -ltnp"}
	}
	_ = l.Close()
	return Finding{What: what, Well: true, Says: addr + " is free"}
}

func checkUDP(what, addr string) Finding {
	l, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return Finding{What: what, Grave: true, Says: addr + ": " + plain(err), Fix: remedy(err)}
	}
	_ = l.Close()
	return Finding{What: what, Well: true, Says: addr + " is free"}
}

func plain(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	return err.Error()
}

func remedy(err error) string {
	if errors.Is(err, os.ErrPermission) {
		return "run as root, or: setcap cap_net_bind_service,cap_net_raw,cap_net_admin+ep " + executable()
	}
	return "stop what uses it: ss -lunp"
}

func executable() string {
	if exe, err := os.Executable(); err == nil {
		return exe
	}
	return "bessemer"
}

func checkCapabilities() Finding {
	f := Finding{What: "raw network access", Grave: true}
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		f.Says, f.Fix = "cannot send DHCP answers to machines without an address: "+plain(err), remedy(os.ErrPermission)
		return f
	}
	_ = syscall.Close(fd)
	f.Well, f.Says = true, "allowed"
	return f
}

func checkAgent(c configs.Config) Finding {
	a, err := ramdisk.Agent()
	if err != nil {
		return Finding{What: "agent", Grave: c.Provisioning.Interface != configs.Simulated, Says: err.Error(), Fix: "build with: make"}
	}
	return Finding{What: "agent", Well: true, Says: fmt.Sprintf("%d kB", len(a)>>10)}
}

func checkRamdisk(c configs.Config) Finding {
	f := Finding{What: "ramdisk", Grave: true}
	if r, err := ramdisk.Open(c.Path("ramdisk")); err == nil {
		f.Well, f.Says = true, fmt.Sprintf("kernel %s, %d MB to boot", r.KernelVersion, r.Total()>>20)
		return f
	}
	if c.Provisioning.Interface == configs.Simulated {
		f.Well, f.Says = true, "a stand-in, which simulated machines fetch but do not run"
		return f
	}
	if c.Ramdisk.Kernel != "" {
		f.Well, f.Says = true, "will be built from "+c.Ramdisk.Kernel
		return f
	}
	kernel, _, err := ramdisk.FindKernel()
	if err != nil {
		f.Says, f.Fix, _ = strings.Cut(err.Error(), "\n")
		return f
	}
	f.Well, f.Says = true, "will be built from "+kernel
	return f
}

func checkDHCP(ctx context.Context, c configs.DHCP, l *link) []Finding {
	if c.Mode == "off" {
		return []Finding{{What: "DHCP", Well: true, Says: "off; another server must send machines here"}}
	}
	fs := []Finding{checkUDP("DHCP port", "0.0.0.0:67")}
	if _, _, err := l.dhcpRange(c.Range); err != nil && c.Mode == "full" {
		fs = append(fs, Finding{What: "DHCP range", Grave: true, Says: err.Error(), Fix: "set dhcp.range to addresses of " + l.subnet.String()})
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	others, err := dhcp.Probe(ctx, l.name)
	f := Finding{What: "other DHCP servers"}
	switch {
	case err != nil:
		f.Says, f.Fix = "could not look: "+plain(err), remedy(os.ErrPermission)
	case len(others) > 0 && c.Mode == "full":
		f.Says, f.Fix = fmt.Sprintf("%v answers on %s as well; machines may take its answer", others, l.name), "stop it, or let it give the addresses: --dhcp-mode proxy"
	case len(others) == 0 && c.Mode == "proxy":
		f.Says, f.Fix = "none answers on "+l.name+", and in proxy mode we give no addresses", "use --dhcp-mode full, or start the other server"
	default:
		f.Well, f.Says = true, fmt.Sprintf("%d seen on %s, as it should be in %s mode", len(others), l.name, c.Mode)
	}
	return append(fs, f)
}
