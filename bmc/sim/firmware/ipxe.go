package firmware

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"time"
)

// packedScript is what the built-in BIOS program does when it starts. It is
// compressed, so that its own script cannot be read: this is its course, with
// the second round and the prompt that it runs into when network boot ends
// with success.
//
//go:embed packed.ipxe
var packedScript string

// romScript is the course of an iPXE in a ROM, which has no script.
const romScript = "#!ipxe\nautoboot\n"

// maxAgain is how often a boot program may load a boot program. A server that
// does not know iPXE sends it in circles (D-05).
const maxAgain = 4

// start runs iPXE, from its own link-up and address on.
func (m *machine) start(ctx context.Context, p program) (Action, error) {
	if m.again++; m.again > maxAgain {
		return "", fmt.Errorf("ipxe: a boot program has loaded a boot program %d times: the server does not know iPXE", maxAgain)
	}
	script := p.script
	if script == "" {
		script = packedScript
	}
	s := newShell(m, m.traits())
	s.base = m.workingURL()
	if m.on("D-06") && p.size > 0 {
		text, err := m.autoexec(ctx, s)
		if err != nil {
			return "", fmt.Errorf("ipxe: %w", err)
		}
		if text != "" {
			script = text
		}
	}
	switch {
	case p.size == 0: // in the ROM, it has opened the card long before it asks
		m.linkUp(romLink, true)
	case m.uefi(): // it takes the card from the firmware; below a BIOS the ROM goes on driving it
		m.drives = true
		m.linkUp(0, true)
	}
	return m.ended(s, s.run(ctx, script))
}

// traits are what a script can ask of this iPXE.
func (m *machine) traits() traits {
	t := traits{platform: "pcbios", arch: "i386", cards: 1, old: m.on("D-12")}
	if m.uefi() {
		t.platform, t.arch = "efi", "x86_64"
	}
	if m.ARM64 {
		t.arch = "arm64"
	}
	if t.old {
		t.arch = "" // such a one does not say
	}
	if m.on("D-09") {
		t.cards, t.booted = 2, 1
	}
	return t
}

// ended is what becomes of the machine when iPXE has ended.
func (m *machine) ended(s *shell, err error) (Action, error) {
	var l *leaving
	switch {
	case errors.As(err, &l) && l.err != nil:
		return "", l.err
	case errors.As(err, &l):
		return l.action, nil
	case err == nil && m.uefi():
		return "", fmt.Errorf("iPXE ended with success, and the firmware shows its menu: %w", ErrStuck)
	case s.chosen:
		return Disk, nil
	case s.failed != nil:
		return "", fmt.Errorf("ipxe: %w", s.failed)
	case err != nil:
		return "", fmt.Errorf("ipxe: %w", err)
	}
	return "", errors.New("ipxe: its script ended without a boot")
}

// workingURL is what relative names in a script are relative to.
func (m *machine) workingURL() *url.URL {
	if isHTTP(m.nic.file) {
		if u, err := url.Parse(m.nic.file); err == nil {
			return u
		}
	}
	if next := m.server(m.nic); next.IsValid() {
		return &url.URL{Scheme: "tftp", Host: next.String(), Path: "/" + path.Dir(strings.TrimPrefix(m.nic.file, "/")) + "/"}
	}
	return nil
}

// autoexec is what newer builds do before anything else (D-06): they look for
// a script of that name beside the boot program and at the top, while the
// firmware still drives the card. That there is none is fine; anything but a
// script or a clean refusal stops them.
func (m *machine) autoexec(ctx context.Context, s *shell) (string, error) {
	for _, name := range []string{"autoexec.ipxe", "/autoexec.ipxe"} {
		p := program{}
		_, err := s.fetch(ctx, name, "autoexec.ipxe", &p)
		var refused tftpError
		var status statusError
		if errors.As(err, &refused) && refused.code == codeNotFound || errors.As(err, &status) && status == 404 || errors.Is(err, errTimeout) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look for %s: %w", name, err)
		}
		text, ok := p.whole()
		if !ok {
			return "", fmt.Errorf("look for %s: %d bytes came that are no script", name, p.size)
		}
		return text, nil
	}
	return "", nil
}

// The machine is what a shell runs on.

func (m *machine) address() (answer, bool) { return m.nic, m.nic.lease.IP.IsValid() }

func (m *machine) identityOf(name string) string {
	switch name {
	case "mac":
		return m.MAC.String()
	case "uuid":
		return m.UUID
	}
	return ""
}

// dhcp configures the card with iPXE's own exchange.
func (m *machine) dhcp(ctx context.Context, user string) error {
	p := persona{arch: m.arch(false), ipxe: true, user: user}
	a, err := m.configure(ctx, client{persona: p, waits: ipxeWaits, wanted: func(answer) string { return "" }})
	if err != nil {
		return err
	}
	m.nic = a
	m.bundle()
	return nil
}

// load fetches a URL.
func (m *machine) load(ctx context.Context, u *url.URL, name string, sink io.Writer) (File, error) {
	if !m.nic.lease.IP.IsValid() {
		return File{}, fmt.Errorf("fetch %s: network unreachable", u.Redacted())
	}
	switch u.Scheme {
	case "http", "https":
		return m.get(ctx, u, name, sink)
	case "tftp":
		if u.Host != m.server(m.nic).String() && u.Host != m.nic.lease.Server.String() {
			return File{}, fmt.Errorf("fetch %s: no route to that host", u.Redacted())
		}
		f, err := m.tftp(ctx, strings.TrimPrefix(strings.TrimPrefix(u.Path, "/"), "./"), []tftpOption{{"blksize", blockFrame}, {"tsize", 0}}, sink)
		if err == nil {
			m.files = append(m.files, f)
		}
		return f, err
	}
	return File{}, fmt.Errorf("fetch %s: iPXE cannot do %q", u.Redacted(), u.Scheme)
}

// restart runs a boot program that was loaded by a boot program.
func (m *machine) restart(ctx context.Context, p program) error {
	if err := p.check(m.Mode, m.ARM64); err != nil {
		return err
	}
	a, err := m.start(ctx, p)
	return &leaving{action: a, err: err}
}

// bootKernel starts a kernel, if what was fetched is what the appliance meant
// to give, and if the system behind it would work.
func (m *machine) bootKernel(kernel, initrd File, args []string) error {
	wantKernel, wantInitrd := m.Wire.Ramdisk()
	why := ""
	switch {
	case wantKernel != "" && kernel.SHA256 != wantKernel:
		why = "the kernel is not the one of the deploy ramdisk, or damaged"
	case wantInitrd != "" && initrd.SHA256 != wantInitrd:
		why = "the initramfs is not the one of the deploy ramdisk, or damaged"
	case m.on("D-10") && has(args, "ip=") && has(args, "BOOTIF="):
		why = "no network: ip= and BOOTIF= contradict each other"
	case m.on("D-30") && has(args, "nomodeset"):
		why = "no network: packets are lost with nomodeset"
	}
	if why != "" {
		m.say("Kernel panic: %s", why)
		return &leaving{err: fmt.Errorf("start the ramdisk: %s: %w", why, ErrStuck)}
	}
	m.args = args
	m.say("Linux: %s", strings.Join(args, " "))
	return &leaving{action: Ramdisk}
}

func has(args []string, prefix string) bool {
	for _, a := range args {
		if strings.HasPrefix(a, prefix) {
			return true
		}
	}
	return false
}

// sanboot starts the first disk through the BIOS; some cannot (D-24).
func (m *machine) sanboot(drive string) error {
	switch {
	case m.uefi():
		return errors.New("no such drive for UEFI")
	case drive != "0x80":
		return fmt.Errorf("drive %s does not exist", drive)
	case m.on("D-24"):
		return errors.New("could not boot from drive 0x80")
	}
	return &leaving{action: Disk}
}

func (m *machine) link(ctx context.Context, up bool) error {
	if up {
		return nil
	}
	return m.wait(ctx, 15*time.Second) // for a link on a card without cable
}
