// Package pxe boots machines over the network: what a machine is to boot, and
// the question that the servers below it (dhcp, tftp, httpd) ask.
package pxe

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// A Machine is one that asks to boot, as far as it has told us.
type Machine struct {
	MAC         net.HardwareAddr
	UUID        string // SMBIOS, canonical form; "" for unknown
	Arch        Arch
	VendorClass string // option 60
	UserClass   string // option 77
	IP          net.IP // that we gave it, or from which it asks
	What        string // "DHCP DISCOVER", "boot script", ...
}

// An Action is what a machine is to do.
type Action string

// Actions.
const (
	// Ramdisk boots the deploy ramdisk.
	Ramdisk Action = "ramdisk"
	// Local boots the machine's disk.
	Local Action = "local"
	// Retry makes the machine ask again after a while: it is unknown, or
	// nothing is to be done with it.
	Retry Action = "retry"
)

// A Boot is what a machine is to boot now. It is decided anew each time, from
// its node's state.
type Boot struct {
	Action Action
	Node   string // UUID, "" for an unknown machine
	Run    uint64
	Trace  string
	Token  string // of this run; part of the URLs of this boot
	// Kernel arguments beyond those that every ramdisk gets, as key=value.
	Args []string
}

// ErrNoFile is returned for a token or name that is not, or no longer, valid.
var ErrNoFile = errors.New("no such file")

// A File is what a machine may fetch with its run's token: the image or the
// config drive. The caller closes it.
type File struct {
	io.ReadSeekCloser
	Size     int64
	Modified time.Time
	ETag     string // quoted, as in RFC 9110 8.8.3; "": Modified tells whether it is the same file
	Node     string
	Run      uint64
	Trace    string
}

// A Booter answers the boot servers. The conductor is one.
type Booter interface {
	// Boot decides what m boots now. It answers from memory in well under a
	// millisecond, and records an unknown machine as discovered.
	Boot(ctx context.Context, m Machine) Boot
	// File opens a file of the run whose token is given, by name: "image",
	// "configdrive".
	File(ctx context.Context, token, name string) (*File, error)
}
