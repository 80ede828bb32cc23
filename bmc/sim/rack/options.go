package rack

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rs/zerolog"

	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/hardware"
)

// Options say what a rack is like. A rack that is opened again on its directory
// keeps its seed, its controllers' protocol and addresses, and its machines;
// Machines may then ask for more.
type Options struct {
	Dir      string        // for disks and state; it is made, and held by one rack at a time
	Wire     firmware.Wire // the network between the machines and the appliance
	Seed     uint64        // fixes everything that is random
	Machines int
	Profiles []string     // names of profiles, dealt in turn; none: all
	BMC      string       // "redfish", "ipmi", "mixed" (in turn), or "" for what a profile says
	TLS      bool         // Redfish by HTTPS, with a certificate that nobody signed
	Network  netip.Prefix // where the controllers' addresses begin; the zero value: the first free place in 127.32.0.0/16
	Pace     float64      // waits last so many times as long as with real machines; 0 = 1
	Quirks   []flaw.ID    // that new machines have
	Log      zerolog.Logger
	Version  string // of the agent
}

// check finds everything that is wrong with the options.
func (o Options) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Dir == "" {
		bad("the rack needs a directory")
	}
	if o.Wire == nil {
		bad("the rack needs a wire to an appliance")
	}
	if o.Machines < 0 || o.Machines > maxMachines {
		bad("%d machines: a rack holds 0 to %d", o.Machines, maxMachines)
	}
	if o.Pace < 0 {
		bad("pace %v is below 0", o.Pace)
	}
	if !slices.Contains([]string{"", protocolRedfish, protocolIPMI, mixed}, o.BMC) {
		bad("controllers %q: there are redfish, ipmi and mixed", o.BMC)
	}
	for _, q := range o.Quirks {
		if !flaw.HasFlag(q) {
			bad("quirk %s has no flag", q)
		}
	}
	errs = append(errs, checkNetwork(o.Network))
	_, err := findProfiles(o.Profiles)
	return errors.Join(append(errs, err)...)
}

// maxMachines is how many addresses there are for controllers.
const maxMachines = blockCount * perBlock

// findProfiles returns profiles by their names, or all.
func findProfiles(names []string) ([]hardware.Profile, error) {
	if len(names) == 0 {
		return hardware.Profiles(), nil
	}
	var found []hardware.Profile
	var errs []error
	for _, n := range names {
		p, err := hardware.Find(n)
		found, errs = append(found, p), append(errs, err)
	}
	return found, errors.Join(errs...)
}
