package ipmi

import (
	"encoding/hex"
	"net"
	"strconv"
	"strings"
	"time"

	"bessemer/bmc"
)

// Limits of the protocol, in bytes.
const (
	maxUser       = 16
	maxPassword   = 20
	maxPassword15 = 16
)

// settings are a driver_info, understood.
type settings struct {
	host           string
	port           int
	user, password string
	privilege      byte
	lower          bool // less privilege will do, as none was named
	suites         []suite
	kg             []byte
	legacy         bool // IPMI 1.5
	forceBoot      bool
	keepFlags      bool // tell the controller not to clear the boot flags after 60 s
	interval       time.Duration
	timing         timing
}

// timing is how long to wait for one packet's answer, and how often to ask.
type timing struct {
	first, max time.Duration // for the first answer; grown by half each time up to max
	tries      int
	backOff    time.Duration // first pause when the controller has no room
	late       time.Duration // boot flags that are older may be gone at 60 s, when the machine is started
	idle       time.Duration // a session unused for longer is not trusted to be there
}

var defaultTiming = timing{first: time.Second, max: 3 * time.Second, tries: 4, backOff: 2 * time.Second, late: 45 * time.Second, idle: 20 * time.Second}

func (s settings) address() string {
	return net.JoinHostPort(strings.ToLower(s.host), strconv.Itoa(s.port))
}

func readSettings(t bmc.Target) (settings, error) {
	f := t.Fields()
	s := settings{
		host:      readHost(f),
		port:      f.Int("ipmi_port", 623, 1, 65535),
		user:      f.String("ipmi_username", ""),
		password:  f.String("ipmi_password", ""),
		privilege: readPrivilege(f),
		legacy:    f.OneOf("ipmi_protocol_version", "2.0", "2.0", "1.5") == "1.5",
		forceBoot: f.Bool("ipmi_force_boot_device", false),
		keepFlags: f.Bool("ipmi_disable_boot_timeout", true),
		interval:  time.Duration(f.Int("ipmi_min_command_interval", 0, 0, 60)) * time.Second,
		timing:    defaultTiming,
	}
	s.lower = !f.Has("ipmi_priv_level")
	s.suites = readSuites(f)
	s.kg = readKg(f, s.legacy)
	checkLengths(f, s)
	if b := strings.ToLower(f.String("ipmi_bridging", "no")); b != "no" {
		f.Fault("ipmi_bridging", "is not supported; address the controller itself")
	}
	return s, f.Err()
}

func readHost(f *bmc.Fields) string {
	const key = "ipmi_address"
	h := strings.TrimSpace(f.Required(key))
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	if strings.ContainsAny(h, "/@ \t\r\n") || (strings.Contains(h, ":") && net.ParseIP(strings.Split(h, "%")[0]) == nil) {
		f.Fault(key, "must be a host name or IP address alone; the port goes into ipmi_port")
	}
	return h
}

const levelOperator = 3

func readPrivilege(f *bmc.Fields) byte {
	levels := map[string]byte{"callback": 1, "user": 2, "operator": levelOperator, "administrator": 4}
	return levels[f.OneOf("ipmi_priv_level", "administrator", "administrator", "operator", "user", "callback")]
}

func readSuites(f *bmc.Fields) []suite {
	const key = "ipmi_cipher_suite"
	if !f.Has(key) {
		return []suite{suite17, suite3}
	}
	switch id := f.String(key, ""); id {
	case "17":
		return []suite{suite17}
	case "3":
		return []suite{suite3}
	default:
		f.Fault(key, "must be 17 or 3, is %q; all others are too weak or not in use", id)
		return nil
	}
}

func readKg(f *bmc.Fields, legacy bool) []byte {
	const key = "ipmi_hex_kg_key"
	if !f.Has(key) {
		return nil
	}
	kg, err := hex.DecodeString(strings.TrimPrefix(f.String(key, ""), "0x"))
	if err != nil || len(kg) != 20 {
		f.Fault(key, "must be 40 hexadecimal digits")
	}
	if legacy {
		f.Fault(key, "has no use with ipmi_protocol_version 1.5")
	}
	return kg
}

// checkLengths explains the protocol's limits (I-07): a controller compares
// only so many bytes, and a longer password never matches.
func checkLengths(f *bmc.Fields, s settings) {
	if n := len(s.user); n > maxUser {
		f.Fault("ipmi_username", "has %d bytes; IPMI knows at most %d", n, maxUser)
	}
	limit, version := maxPassword, "2.0"
	if s.legacy {
		limit, version = maxPassword15, "1.5"
	}
	if n := len(s.password); n > limit {
		f.Fault("ipmi_password", "has %d bytes; IPMI %s knows at most %d, so set a shorter one on the controller", n, version, limit)
	}
}
