package dhcp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"bessemer/pxe"
)

// Mode says how much of DHCP the server does.
type Mode string

// Modes.
const (
	Full  Mode = "full"  // addresses and boot answers
	Proxy Mode = "proxy" // boot answers beside another server that gives addresses
	Off   Mode = "off"
)

// Config of a [Server]: one interface.
type Config struct {
	Interface string
	Address   netip.Addr // ours on that interface; source of every reply and next-server
	Mode      Mode
	BaseURL   string // of the provisioning listener, without a trailing slash

	// Full mode only.
	First, Last netip.Addr   // addresses to give
	Subnet      netip.Prefix // of the interface, or of the machines behind a relay
	Gateway     netip.Addr   // zero: none is announced
	DNS         []netip.Addr
	LeaseTime   time.Duration // 0: 10 min
	// Unknown is how many addresses at the end of the range are for machines
	// without a port; 0: a quarter of the range, at most 64.
	Unknown int

	// NoSockets serves packets that [Server.Deliver] is given, and no others:
	// for machines that are simulated. Address may then lie outside of Subnet.
	// Such machines need not wait as long as real ones between tries, so
	// Limits are a hundred times higher unless they are set.
	NoSockets bool

	// HasFile says which boot programs TFTP and HTTP serve; nil: the built-in
	// ones.
	HasFile func(name string) bool
	Limits  Limits
	Log     zerolog.Logger
}

// Limits of what one client, and all unknown ones together, may ask. Zero
// values mean the defaults.
type Limits struct {
	PerMAC      float64       // packets a second from one MAC; 10, in bursts of 20
	Unknown     float64       // packets a second from all MACs without a port; 100, in bursts of 400
	UnknownTime time.Duration // longest lease of a machine without a port; 5 min
}

const (
	defaultLease   = 10 * time.Minute
	unknownLease   = 5 * time.Minute // iPXE does not renew, and asks anew every boot
	offerTime      = 30 * time.Second
	quarantine     = 10 * time.Minute
	maxRange       = 1 << 16
	maxUnknownPart = 64
)

func (c *Config) complete() error {
	if c.LeaseTime == 0 {
		c.LeaseTime = defaultLease
	}
	haste := 1.0
	if c.NoSockets {
		haste = 100
	}
	if c.Limits.PerMAC == 0 {
		c.Limits.PerMAC = 10 * haste
	}
	if c.Limits.Unknown == 0 {
		c.Limits.Unknown = 100 * haste
	}
	if c.Limits.UnknownTime == 0 {
		c.Limits.UnknownTime = unknownLease
	}
	if c.HasFile == nil {
		c.HasFile = func(name string) bool {
			return name == pxe.NBPBIOS || name == pxe.NBPX64 || name == pxe.NBPARM64
		}
	}
	return errors.Join(c.checkCommon(), c.checkFull())
}

func (c *Config) checkCommon() error {
	var errs []error
	if c.Mode != Full && c.Mode != Proxy && c.Mode != Off {
		errs = append(errs, fmt.Errorf("dhcp mode %q: want full, proxy or off", c.Mode))
	}
	if c.Interface == "" {
		errs = append(errs, errors.New("dhcp: no interface"))
	}
	if !c.Address.Is4() {
		errs = append(errs, fmt.Errorf("dhcp on %s: our address %s is not IPv4", c.Interface, c.Address))
	}
	if err := pxe.CheckBase(c.BaseURL); err != nil {
		errs = append(errs, fmt.Errorf("dhcp on %s: %w", c.Interface, err))
	}
	return errors.Join(errs...)
}

func (c *Config) checkFull() error {
	if c.Mode != Full {
		return nil
	}
	switch {
	case !c.First.Is4() || !c.Last.Is4() || c.Last.Less(c.First):
		return fmt.Errorf("dhcp range %s-%s: want two IPv4 addresses in order", c.First, c.Last)
	case !c.Subnet.Contains(c.First) || !c.Subnet.Contains(c.Last):
		return fmt.Errorf("dhcp range %s-%s: not inside the network %s", c.First, c.Last, c.Subnet)
	case c.Gateway.IsValid() && !c.Subnet.Contains(c.Gateway):
		return fmt.Errorf("dhcp: gateway %s is not inside the network %s", c.Gateway, c.Subnet)
	case number(c.Last)-number(c.First) >= maxRange:
		return fmt.Errorf("dhcp range %s-%s: at most %d addresses", c.First, c.Last, maxRange)
	case c.LeaseTime < time.Minute || c.LeaseTime > 30*24*time.Hour:
		return fmt.Errorf("dhcp lease time %s: want one minute to 30 days", c.LeaseTime)
	case c.Unknown < 0 || c.Unknown > int(number(c.Last)-number(c.First)):
		return fmt.Errorf("dhcp: %d addresses for unknown machines leave none of the range %s-%s for nodes", c.Unknown, c.First, c.Last)
	}
	return nil
}

// UpperHalf is the range for a network whose operator names none: its upper
// half, without the broadcast address, and of a network larger than /16 its
// last 65,536 addresses.
func UpperHalf(p netip.Prefix) (first, last netip.Addr) {
	base := number(p.Masked().Addr())
	size := uint64(1) << (32 - p.Bits())
	from, to := uint64(base)+size/2, uint64(base)+size-2
	if size < 4 {
		return netip.Addr{}, netip.Addr{}
	}
	return address(uint32(max(from, to-min(to, maxRange-1)))), address(uint32(to))
}

// parts divides the range: the first part for enrolled ports, the second for
// unknown machines. A range of one address is the enrolled ports' alone.
func (c *Config) parts() (known, unknown span) {
	first, last := number(c.First), number(c.Last)
	n := uint32(c.Unknown)
	if n == 0 {
		n = min((last-first+1)/4, maxUnknownPart)
	}
	return span{first, last - n + 1}, span{last - n + 1, last + 1}
}
