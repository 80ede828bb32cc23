package pxe

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Paths below the provisioning listener's base URL. DHCP offers them, httpd
// serves them.
const (
	PathPrefix  = "/boot/"
	PathScript  = "/boot/ipxe/" // + MAC
	PathKernel  = "/boot/ramdisk/kernel"
	PathInitrd  = "/boot/ramdisk/initrd"
	PathNBP     = "/boot/nbp/"  // + name of the boot program
	PathFile    = "/boot/file/" // + token + "/" + name
	FileImage   = "image"       // names for Booter.File
	FileDrive   = "configdrive"
	scriptMaxTX = 127 // bytes of a BOOTP file field without its NUL (RFC 2131 2)
)

// ScriptURL is where the machine with the given MAC finds its iPXE script.
func ScriptURL(base string, mac net.HardwareAddr) string { return base + PathScript + mac.String() }

// NBPURL is where UEFI HTTP boot finds a boot program.
func NBPURL(base, name string) string { return base + PathNBP + name }

// FileURL is where the machine of the run with the given token finds its
// image or config drive.
func FileURL(base, token, name string) string { return base + PathFile + token + "/" + name }

// CheckBase checks the base URL of the provisioning listener: http or https,
// a host, no path, and short enough for the 128 bytes of a BOOTP file field.
func CheckBase(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return fmt.Errorf("parse base URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("base URL %q: want http or https", base)
	case u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("base URL %q: want scheme, host and port only", base)
	case strings.HasSuffix(base, "/"):
		return fmt.Errorf("base URL %q: must not end in /", base)
	}
	if err := CheckArg(base); err != nil {
		return fmt.Errorf("base URL: %w", err)
	}
	if n := len(ScriptURL(base, make(net.HardwareAddr, 6))); n > scriptMaxTX {
		return fmt.Errorf("base URL %q: boot script URLs would have %d bytes, at most %d fit into a BOOTP reply", base, n, scriptMaxTX)
	}
	return nil
}
