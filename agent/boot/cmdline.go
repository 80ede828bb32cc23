package boot

import (
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Cmdline is the kernel's command line, as far as it concerns the agent. The
// names are Ironic-Python-Agent's.
type Cmdline struct {
	APIURL                string           // ipa-api-url
	AgentToken            string           // ipa-agent-token, given in advance by virtual media
	RequestID             string           // ipa-global-request-id
	InspectionCallbackURL string           // ipa-inspection-callback-url
	LookupTimeout         time.Duration    // ipa-lookup-timeout, 0 for the default
	Insecure              bool             // ipa-insecure: do not check the API's certificate
	Debug                 bool             // ipa-debug
	CollectLLDP           bool             // ipa-collect-lldp
	AdvertiseHost         string           // ipa-advertise-host
	AdvertisePort         int              // ipa-advertise-port, 0 for the default
	ListenHost            string           // ipa-listen-host
	ListenPort            int              // ipa-listen-port, 0 for the default
	BootMAC               net.HardwareAddr // BOOTIF: the card that the machine booted from
	Args                  map[string]string
}

func readCmdline() Cmdline {
	b, _ := os.ReadFile("/proc/cmdline") // without it, everything has its default
	return ParseCmdline(string(b))
}

// maxLookupTimeout bounds what a command line may ask for.
const maxLookupTimeout = 7 * 24 * time.Hour

// ParseCmdline reads a kernel's command line. What is not understood is
// ignored, as the kernel itself does: a boot loader puts its own words there
// (vmlinuz, BOOT_IMAGE=, initrd=).
func ParseCmdline(text string) Cmdline {
	args := map[string]string{}
	for _, word := range splitCmdline(text) {
		key, value, _ := strings.Cut(word, "=")
		args[canonicalKey(key)] = unquote(value)
	}
	return Cmdline{
		APIURL:                cleanURL(args["ipa-api-url"]),
		AgentToken:            args["ipa-agent-token"],
		RequestID:             args["ipa-global-request-id"],
		InspectionCallbackURL: cleanURL(args["ipa-inspection-callback-url"]),
		LookupTimeout:         seconds(args["ipa-lookup-timeout"]),
		Insecure:              truth(args, "ipa-insecure"),
		Debug:                 truth(args, "ipa-debug"),
		CollectLLDP:           truth(args, "ipa-collect-lldp"),
		AdvertiseHost:         strings.Trim(args["ipa-advertise-host"], "[]"),
		AdvertisePort:         port(args["ipa-advertise-port"]),
		ListenHost:            strings.Trim(args["ipa-listen-host"], "[]"),
		ListenPort:            port(args["ipa-listen-port"]),
		BootMAC:               parseBOOTIF(args["BOOTIF"]),
		Args:                  args,
	}
}

// canonicalKey lets ipa_api_url be ipa-api-url, as the kernel does with its
// own parameters.
func canonicalKey(key string) string {
	if strings.HasPrefix(key, "ipa_") || strings.HasPrefix(key, "ipa-") {
		return strings.ReplaceAll(key, "_", "-")
	}
	return key
}

// splitCmdline splits at blanks that are not inside double quotes.
func splitCmdline(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\n' || r == '\t')
	})
}

func unquote(value string) string { return strings.ReplaceAll(value, `"`, "") }

// cleanURL returns an http or https URL without a trailing slash, "" for
// anything else.
func cleanURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return strings.TrimRight(s, "/")
}

func seconds(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxLookupTimeout)
}

func port(s string) int {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// truth reads a switch: given alone or with a word that means yes. A word that
// is neither yes nor no is no (quirk I-14).
func truth(args map[string]string, key string) bool {
	value, given := args[key]
	return given && slices.Contains([]string{"", "1", "true", "yes", "on", "t", "y"}, strings.ToLower(value))
}

// parseBOOTIF reads PXELINUX's notation (01-52-54-00-12-34-56, the first byte
// being the hardware type), GRUB's (with colons) and a plain address.
func parseBOOTIF(s string) net.HardwareAddr {
	s = strings.ReplaceAll(s, "-", ":")
	if len(s) == len("01:52:54:00:12:34:56") && strings.HasPrefix(s, "01:") {
		s = s[len("01:"):]
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		return nil
	}
	return mac
}
