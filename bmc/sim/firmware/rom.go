package firmware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Client architectures (RFC 4578, and the IANA registry).
const (
	archBIOS      = 0x00
	archX64       = 0x07
	archEBC       = 0x09
	archARM64     = 0x0b
	archX64HTTP   = 0x10
	archARM64HTTP = 0x13
)

// arch is option 93. Some x64 firmware calls itself EBC (D-01).
func (m *machine) arch(http bool) uint16 {
	switch {
	case !m.uefi():
		return archBIOS
	case http && m.ARM64:
		return archARM64HTTP
	case http:
		return archX64HTTP
	case m.ARM64:
		return archARM64
	case m.on("D-01"):
		return archEBC
	}
	return archX64
}

// byHTTP reports whether the firmware boots from a URL. The quirks of UEFI HTTP
// boot turn it on where there is UEFI.
func (m *machine) byHTTP() bool { return m.uefi() && (m.HTTPBoot || m.on("D-03") || m.on("D-19")) }

// boot is network boot from its beginning.
func (m *machine) boot(ctx context.Context) (Action, error) {
	if m.ROMIsIPXE || m.on("D-12") { // an old iPXE, in the card's ROM
		return m.start(ctx, program{script: romScript})
	}
	m.linkUp(postLink, false)
	load := m.pxe
	if m.byHTTP() {
		load = m.http
	}
	p, err := load(ctx)
	if err != nil {
		return "", err
	}
	return m.start(ctx, p)
}

// pxe is a PXE ROM: address, boot file, TFTP.
func (m *machine) pxe(ctx context.Context) (program, error) {
	m.say("PXE: %s, architecture %d", m.MAC, m.arch(false))
	p := persona{arch: m.arch(false)}
	a, err := m.configure(ctx, client{persona: p, waits: romWaits, wanted: func(answer) string { return "" }})
	if err != nil {
		return program{}, fmt.Errorf("pxe rom: %w", err)
	}
	m.nic = a
	if a.file == "" && strings.HasPrefix(a.class, "PXEClient") {
		if a, err = m.askProxy(ctx, p, a); err != nil {
			return program{}, fmt.Errorf("pxe rom: %w", err)
		}
	} else if m.on("D-04") && strings.HasPrefix(a.class, "PXEClient") {
		a.file = "" // looks for boot servers in option 43, and finds none
	}
	m.nic = a
	if a.file == "" {
		m.say("PXE-E53: No boot filename received")
		return program{}, errors.New("pxe rom: no boot file was named")
	}
	if !m.server(a).IsValid() {
		return program{}, fmt.Errorf("pxe rom: no server was named for boot file %q", a.file)
	}
	return m.loadTFTP(ctx, a)
}

// askProxy asks port 4011 what to boot: an answer had PXEClient as its class
// and no file (PXE specification 2.1, section 2.2.4).
func (m *machine) askProxy(ctx context.Context, p persona, a answer) (answer, error) {
	for _, w := range romWaits {
		request, err := m.packet(dhcpv4.MessageTypeRequest, p, dhcpv4.WithClientIP(net.IP(a.lease.IP.AsSlice())))
		if err != nil {
			return a, err
		}
		if ack := m.ask(ctx, request, portProxy, dhcpv4.MessageTypeAck); ack != nil {
			b := learn(ack)
			a.file, a.next, a.named, a.class = b.file, b.next, b.named, b.class
			return a, nil
		}
		if err := m.wait(ctx, w); err != nil {
			return a, err
		}
	}
	m.say("PXE-E55: ProxyDHCP: No reply to request on port 4011")
	return a, errors.New("port 4011 did not answer")
}

// http is UEFI HTTP boot: address, URL, HEAD for the size, GET.
func (m *machine) http(ctx context.Context) (program, error) {
	m.say("HTTP boot: %s, architecture %d", m.MAC, m.arch(true))
	c := client{persona: persona{arch: m.arch(true), http: true}, waits: romWaits, wanted: func(a answer) string {
		switch {
		case m.on("D-03") && !strings.HasPrefix(a.class, "HTTPClient"):
			return fmt.Sprintf("its class is %q, not HTTPClient", a.class)
		case m.on("D-03") && !isHTTP(a.file):
			return fmt.Sprintf("its boot file %q is no URL", a.file)
		}
		return ""
	}}
	a, err := m.configure(ctx, c)
	if err != nil {
		return program{}, fmt.Errorf("http boot: %w", err)
	}
	m.nic = a
	if !isHTTP(a.file) {
		return program{}, fmt.Errorf("http boot: boot file %q is no URL", a.file)
	}
	u, err := url.Parse(a.file)
	if err != nil {
		return program{}, fmt.Errorf("http boot: %w", err)
	}
	p := program{}
	size, err := m.head(ctx, u)
	if err != nil {
		return p, fmt.Errorf("http boot: %w", err)
	}
	f, err := m.get(ctx, u, "boot program", &p)
	if err == nil && size >= 0 && f.Size != size {
		err = fmt.Errorf("HEAD said %d bytes, GET gave %d", size, f.Size)
	}
	if err == nil {
		err = p.check(m.Mode, m.ARM64)
	}
	if err != nil {
		return p, fmt.Errorf("http boot: %w", err)
	}
	return p, nil
}

func isHTTP(file string) bool {
	return strings.HasPrefix(file, "http://") || strings.HasPrefix(file, "https://")
}
