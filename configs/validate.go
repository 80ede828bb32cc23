package configs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Validate returns every fault of c at once.
func (c Config) Validate() error { return errors.Join(c.validate()...) }

func (c Config) validate() []error {
	var f faults
	f.oneOf("log.level", c.Log.Level, "trace", "debug", "info", "warn", "error")
	f.oneOf("log.format", c.Log.Format, "auto", "console", "json")
	c.API.validate(&f)
	c.Provisioning.validate(&f)
	c.DHCP.validate(&f)
	f.check(c.Provisioning.Interface != Simulated || c.DHCP.Mode == "full", "dhcp.mode: %q: simulated machines get their addresses from here, which is mode full", c.DHCP.Mode)
	f.oneOf("ramdisk.build", c.Ramdisk.Build, "auto", "never")
	for i, l := range [][]string{c.Outgoing.Allow, c.Outgoing.Deny} {
		for _, p := range l {
			_, err := netip.ParsePrefix(p)
			f.check(err == nil, "outgoing.%s: %q is not a network such as 192.0.2.0/24", []string{"allow", "deny"}[i], p)
		}
	}
	f.check(c.Conductor.Workers > 0, "conductor.workers: must be at least 1")
	f.check(c.Conductor.MaxBoots > 0, "conductor.max_boots: must be at least 1")
	f.check(c.Conductor.MaxImageStreams > 0, "conductor.max_image_streams: must be at least 1")
	for name, d := range map[string]Duration{
		"conductor.deploy_timeout": c.Conductor.DeployTimeout, "conductor.clean_timeout": c.Conductor.CleanTimeout,
		"conductor.boot_timeout": c.Conductor.BootTimeout, "conductor.heartbeat_timeout": c.Conductor.HeartbeatTimeout,
		"bmc.connect_timeout": c.BMC.ConnectTimeout, "bmc.call_timeout": c.BMC.CallTimeout, "bmc.power_timeout": c.BMC.PowerTimeout,
		"dhcp.lease_time": c.DHCP.LeaseTime,
	} {
		f.check(d > 0, "%s: must be longer than 0", name)
	}
	f.check(c.Conductor.PowerSyncInterval >= 0, "conductor.power_sync_interval: must not be negative")
	slices.SortFunc(f, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return f
}

func (a API) validate(f *faults) {
	host, _, err := net.SplitHostPort(a.Listen)
	f.check(err == nil, "api.listen: %q is not address:port", a.Listen)
	f.oneOf("api.auth", a.Auth, "basic", "none")
	f.check((a.TLSCert == "") == (a.TLSKey == ""), "api.tls_cert, api.tls_key: give both or neither")
	if err == nil && a.Auth == "none" {
		f.check(Loopback(host), "api.auth: none is refused on %s; only a loopback address may be without authentication", a.Listen)
	}
	if a.PublicURL != "" {
		u, err := url.Parse(a.PublicURL)
		f.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "api.public_url: %q is not an http or https URL", a.PublicURL)
	}
}

func (p Provisioning) validate(f *faults) {
	sim := p.Interface == Simulated
	f.check((p.Port > 0 || p.Port == 0 && sim) && p.Port < 65536, "provisioning.port: %d is not a TCP port", p.Port)
	f.check(!sim || p.Address == "" || p.Address == "127.0.0.1", "provisioning.address: %q: on the simulated network it is 127.0.0.1", p.Address)
	if p.Address != "" {
		a, err := netip.ParseAddr(p.Address)
		f.check(err == nil && a.Is4(), "provisioning.address: %q is not an IPv4 address", p.Address)
	}
	unsafe := strings.ContainsFunc(p.KernelArgs, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune("${}\"'`|&;#", r) })
	f.check(!unsafe, "provisioning.kernel_args: %q has characters that a boot script must not have", p.KernelArgs)
}

func (d DHCP) validate(f *faults) {
	f.oneOf("dhcp.mode", d.Mode, "full", "proxy", "off")
	if d.Range != "" {
		_, _, err := ParseRange(d.Range)
		f.check(err == nil, "dhcp.range: %v", err)
	}
	for _, a := range append(d.DNS, d.Gateway) {
		if a != "" {
			ip, err := netip.ParseAddr(a)
			f.check(err == nil && ip.Is4(), "dhcp: %q is not an IPv4 address", a)
		}
	}
}

// ParseRange parses "192.0.2.100-192.0.2.200".
func ParseRange(text string) (first, last netip.Addr, err error) {
	a, b, ok := strings.Cut(text, "-")
	if !ok {
		return first, last, fmt.Errorf("%q is not first-last", text)
	}
	first, err1 := netip.ParseAddr(strings.TrimSpace(a))
	last, err2 := netip.ParseAddr(strings.TrimSpace(b))
	if err := errors.Join(err1, err2); err != nil {
		return first, last, err
	}
	if !first.Is4() || !last.Is4() || last.Less(first) {
		return first, last, fmt.Errorf("%q is not a range of IPv4 addresses", text)
	}
	return first, last, nil
}

// Loopback tells whether a listening host reaches only this host.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func (f *faults) oneOf(key, value string, allowed ...string) {
	f.check(slices.Contains(allowed, value), "%s: %q is none of %s", key, value, strings.Join(allowed, ", "))
}
