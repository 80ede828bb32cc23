// Package bmc controls machines out of band, through their management
// controllers. A driver per protocol lives in a sub-package; main lists them.
// The rest of the appliance uses drivers through [Client], which adds
// deadlines, one call at a time per controller, read-back of every write, and
// the arrows of the sequence diagram.
package bmc

import (
	"context"
	"errors"
	"time"

	"bessemer/store"
)

var (
	// ErrUnsupported is returned when a controller or its driver cannot do
	// what is asked.
	ErrUnsupported = errors.New("not supported by this controller")
	// ErrCredentials is returned when the controller refuses user or password.
	ErrCredentials = errors.New("user name or password refused")
	// ErrUnreachable is returned when the controller does not answer.
	ErrUnreachable = errors.New("no answer")
	// ErrTLS is returned when the controller's certificate is not trusted.
	ErrTLS = errors.New("certificate not trusted")
)

// A BootDevice is where a machine boots from next, in Ironic's words.
type BootDevice string

// Boot devices.
const (
	PXE       BootDevice = "pxe"
	Disk      BootDevice = "disk"
	CDROM     BootDevice = "cdrom"
	BIOSSetup BootDevice = "bios"
	Safe      BootDevice = "safe"
	UEFIHTTP  BootDevice = "uefihttp"
)

// Boot is a boot setting of a controller.
type Boot struct {
	Device     BootDevice // "" when none is set or it is unknown
	Mode       string     // "uefi", "bios" or "" to leave as it is
	Persistent bool       // else for the next boot only
	// Card is the MAC address of a network card that a setting for the network
	// names, where the controller lets it: for machines that did not heed one
	// that names none (B-16). It is not read back.
	Card string
}

// PowerAction is what a driver does to a machine's power at once.
type PowerAction string

// Power actions.
const (
	On       PowerAction = "on"
	ForceOff PowerAction = "force off"
	SoftOff  PowerAction = "soft off" // asks the operating system
	Reset    PowerAction = "reset"    // hard, without a power cycle if the controller can
)

// Info is what a controller says of itself and its machine.
type Info struct {
	Vendor, Model, Firmware string
	SystemUUID              string
	Serial                  string
	MACs                    []string // lower case, colons
}

// A Driver talks to one machine's management controller. Its methods may be
// called again for what is already so, and must then succeed. They return
// errors that wrap the package's sentinels where these apply, and never
// contain the password.
type Driver interface {
	// Identify logs in and returns what the controller says of itself.
	Identify(context.Context) (Info, error)
	// PowerState reads the state now: store.PowerOn, store.PowerOff, or
	// store.PowerError with an error. Transitional states are waited for by
	// the caller; a driver returns "" for them.
	PowerState(context.Context) (store.PowerState, error)
	// Power asks for an action; the caller waits for its effect.
	Power(context.Context, PowerAction) error
	// Boot reads the boot setting.
	Boot(context.Context) (Boot, error)
	// SetBoot sets the boot device; one of a zero Device clears the setting.
	// The caller reads it back.
	SetBoot(context.Context, Boot) error
	// BootDevices lists the devices that SetBoot accepts.
	BootDevices(context.Context) ([]BootDevice, error)
	// Close ends the session, if there is one.
	Close() error
}

// A Cycler is a driver that can start a machine which is off and does not turn
// on when told to (B-12).
type Cycler interface {
	// Cycle cuts the power of a machine that is off already, and turns it on;
	// the caller waits for its effect.
	Cycle(context.Context) error
}

// A Target says which controller a driver is to be opened for.
type Target struct {
	Node       string         // UUID, for messages
	DriverInfo map[string]any // Ironic's keys: redfish_address, ipmi_username, ...
	// LastPower is the power state last recorded for the node; a machine that
	// exists only in memory starts in it.
	LastPower store.PowerState
	// ConnectTimeout is how long to try to reach the controller; 0 is 30 s.
	ConnectTimeout time.Duration
	// Sessions is where the driver notes its session; nil: nowhere.
	Sessions Sessions
}

// Addressed is a driver that tells where its controller is, as "host:port" in
// a normal form. Drivers with the same address are never called at once.
type Addressed interface{ Address() string }

// A Property describes one key of a driver's driver_info.
type Property struct {
	Name, Help string
	Required   bool
	Secret     bool
}

// A Type is a hardware type: a name that a node's driver field may have.
type Type struct {
	// Open returns the driver for a controller, without talking to it yet.
	// It reports every fault of the driver_info at once.
	Open       func(Target) (Driver, error)
	Properties []Property
	// Interfaces lists the implementations of each of Ironic's interfaces,
	// the default first: "boot": {"ipxe", "pxe"}.
	Interfaces map[string][]string
}

// Types are the hardware types of this appliance, by name.
type Types map[string]Type
