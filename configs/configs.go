// Package configs holds every setting of the appliance with its default, its
// help and its check. Settings come from a file, then the environment, then
// flags; the later wins. All faults are reported at once.
package configs

import (
	"cmp"
	"os"
	"path/filepath"
	"time"
)

// Config is every setting. The tags are the key in the file and the help;
// "api.listen" in the file is BESSEMER_API_LISTEN in the environment and
// --api-listen as a flag.
type Config struct {
	DataDir      string       `yaml:"data_dir" help:"where everything is kept: the store, its key, images, the ramdisk; empty: /var/lib/bessemer for root, else ~/.local/state/bessemer"`
	Log          Log          `yaml:"log"`
	API          API          `yaml:"api"`
	Provisioning Provisioning `yaml:"provisioning"`
	DHCP         DHCP         `yaml:"dhcp"`
	TFTP         TFTP         `yaml:"tftp"`
	Ramdisk      Ramdisk      `yaml:"ramdisk"`
	Outgoing     Outgoing     `yaml:"outgoing"`
	Conductor    Conductor    `yaml:"conductor"`
	BMC          BMC          `yaml:"bmc"`
}

// Log is how the appliance logs.
type Log struct {
	Level  string `yaml:"level" help:"trace, debug, info, warn or error"`
	Format string `yaml:"format" help:"console, json, or auto: console on a terminal"`
}

// Simulated is the provisioning interface that is none: simulated machines on
// loopback, which needs no privileges.
const Simulated = "sim"

// API is the listener for people and clients.
type API struct {
	Listen    string   `yaml:"listen" help:"address of the API and the dashboard"`
	Auth      string   `yaml:"auth" help:"basic (user and password, or a token) or none; none only on a loopback address"`
	TLSCert   string   `yaml:"tls_cert" help:"certificate file (PEM); with tls_key it makes the listener HTTPS"`
	TLSKey    string   `yaml:"tls_key" help:"key file (PEM) of tls_cert"`
	PublicURL string   `yaml:"public_url" help:"how clients reach the API, for links; empty: as the request says"`
	Hosts     []string `yaml:"hosts" help:"host names that requests may name beside addresses and localhost; empty: any"`
}

// Provisioning is the side that machines boot from.
type Provisioning struct {
	Interface  string `yaml:"interface" help:"network interface towards the machines; sim: simulated machines on loopback; empty: no network boot"`
	Address    string `yaml:"address" help:"our IPv4 address on it; empty: its first one"`
	Port       int    `yaml:"port" help:"TCP port of boot scripts, ramdisk, images and the agent's calls; 0 with sim: any free one"`
	KernelArgs string `yaml:"kernel_args" help:"arguments for the ramdisk's kernel beside our own, separated by spaces"`
}

// DHCP is our DHCP server on the provisioning interface.
type DHCP struct {
	Mode      string   `yaml:"mode" help:"full: give addresses; proxy: only say what to boot, beside another DHCP server; off"`
	Range     string   `yaml:"range" help:"first-last address to give; empty: the upper half of the interface's network"`
	Gateway   string   `yaml:"gateway" help:"default route for the machines; empty: none"`
	DNS       []string `yaml:"dns" help:"DNS servers for the machines"`
	LeaseTime Duration `yaml:"lease_time" help:"how long an address is given for"`
	RouterAdv bool     `yaml:"router_advertisements" help:"answer router solicitations with an empty advertisement, which saves iPXE 13 s a boot"`
}

// TFTP is our TFTP server on the provisioning interface.
type TFTP struct {
	Enabled bool `yaml:"enabled" help:"serve iPXE to network cards by TFTP"`
}

// Ramdisk is where the deploy ramdisk comes from.
type Ramdisk struct {
	Build    string `yaml:"build" help:"auto: build at start when none fits; never"`
	Kernel   string `yaml:"kernel" help:"kernel image; empty: this host's own"`
	Modules  string `yaml:"modules" help:"its /lib/modules/VERSION; empty: the one that belongs to the kernel"`
	Firmware string `yaml:"firmware" help:"firmware files for network and storage cards; empty: /lib/firmware"`
}

// Outgoing says which addresses URLs given by clients may lead to.
type Outgoing struct {
	Allow []string `yaml:"allow" help:"networks that image and other URLs may reach although they are refused by default (loopback, link-local)"`
	Deny  []string `yaml:"deny" help:"networks that URLs may never reach"`
}

// Conductor is how workflows run.
type Conductor struct {
	Hostname          string   `yaml:"hostname" help:"our name as a conductor; empty: this host's name"`
	Workers           int      `yaml:"workers" help:"how many steps may run at once, beside those that wait for a machine or its controller"`
	MaxBoots          int      `yaml:"max_boots" help:"how many machines may be starting the ramdisk at once; others wait in line"`
	MaxImageStreams   int      `yaml:"max_image_streams" help:"how many machines may write an image at once; others wait in line"`
	AutomatedClean    bool     `yaml:"automated_clean" help:"wipe the disks' metadata before a node becomes available"`
	DeployTimeout     Duration `yaml:"deploy_timeout" help:"how long to wait for the agent's next sign during a deploy"`
	CleanTimeout      Duration `yaml:"clean_timeout" help:"the same during cleaning"`
	BootTimeout       Duration `yaml:"boot_timeout" help:"how long the ramdisk may take to call before its boot is tried again"`
	HeartbeatTimeout  Duration `yaml:"heartbeat_timeout" help:"how long an agent may be silent"`
	PowerSyncInterval Duration `yaml:"power_sync_interval" help:"how often power states are read; 0: never"`
	PowerOffOnFailure bool     `yaml:"power_off_after_deploy_failure" help:"power a node off whose deploy failed"`
}

// BMC is how controllers are talked to.
type BMC struct {
	ConnectTimeout Duration `yaml:"connect_timeout" help:"how long a connection may take"`
	CallTimeout    Duration `yaml:"call_timeout" help:"how long one call may take"`
	PowerTimeout   Duration `yaml:"power_timeout" help:"how long a power change may take to show"`
}

// Default returns the settings of a start without file, environment or flags.
func Default() Config {
	return Config{
		Log:          Log{Level: "info", Format: "auto"},
		API:          API{Listen: "127.0.0.1:6385", Auth: "basic", Hosts: []string{}},
		Provisioning: Provisioning{Port: 6386, KernelArgs: "console=tty0 console=ttyS0,115200n8"},
		DHCP:         DHCP{Mode: "full", DNS: []string{}, LeaseTime: Duration(10 * time.Minute), RouterAdv: true},
		TFTP:         TFTP{Enabled: true},
		Ramdisk:      Ramdisk{Build: "auto"},
		Outgoing:     Outgoing{Allow: []string{}, Deny: []string{}},
		Conductor: Conductor{
			Workers: 64, MaxBoots: 128, MaxImageStreams: 64, AutomatedClean: true,
			DeployTimeout: Duration(30 * time.Minute), CleanTimeout: Duration(30 * time.Minute),
			BootTimeout: Duration(10 * time.Minute), HeartbeatTimeout: Duration(5 * time.Minute),
			PowerSyncInterval: Duration(2 * time.Minute), PowerOffOnFailure: true,
		},
		BMC: BMC{
			ConnectTimeout: Duration(30 * time.Second), CallTimeout: Duration(time.Minute), PowerTimeout: Duration(time.Minute),
		},
	}
}

// Dir returns the data directory: data_dir, or what it stands for when empty.
// systemd's StateDirectory= is heeded.
func (c Config) Dir() string {
	if dir := cmp.Or(c.DataDir, os.Getenv("STATE_DIRECTORY")); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/bessemer"
	}
	home, _ := os.UserHomeDir()
	return filepath.Join(cmp.Or(os.Getenv("XDG_STATE_HOME"), filepath.Join(home, ".local", "state")), "bessemer")
}

// Path returns the path of a file or folder in the data directory.
func (c Config) Path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir()}, parts...)...)
}

// A Duration is a time.Duration written as "10m" or "1h30m".
type Duration time.Duration

// String writes d as "10m", without the zero seconds of time.Duration.
func (d Duration) String() string { return short(time.Duration(d)) }

// D returns d as the standard library's type.
func (d Duration) D() time.Duration { return time.Duration(d) }
