// Package fake is the hardware type fake-hardware: machines that exist only
// in memory, one per node. They do at once what they are told. [Driver] is
// also the scriptable controller of tests.
package fake

import (
	"sync"

	"bessemer/bmc"
)

// Type returns the hardware type. Each machine lives as long as the Type: a
// changed driver_info does not reset it.
func Type() bmc.Type {
	var mu sync.Mutex
	machines := map[string]*Driver{}
	return TypeOf(func(t bmc.Target) *Driver {
		mu.Lock()
		defer mu.Unlock()
		d := machines[t.Node]
		if d == nil {
			d = New()
			d.Set(t.LastPower)
			machines[t.Node] = d
		}
		return d
	})
}

// TypeOf returns the hardware type whose controllers are what open returns,
// so that a test can script them.
func TypeOf(open func(bmc.Target) *Driver) bmc.Type {
	return bmc.Type{
		Open: func(t bmc.Target) (bmc.Driver, error) { return open(t), nil },
		Interfaces: map[string][]string{
			"bios":       {"fake", "no-bios"},
			"boot":       {"fake", "ipxe"},
			"console":    {"fake", "no-console"},
			"deploy":     {"fake", "direct"},
			"inspect":    {"fake", "no-inspect"},
			"management": {"fake"},
			"network":    {"noop", "flat"},
			"power":      {"fake"},
			"raid":       {"fake", "no-raid"},
			"rescue":     {"fake", "no-rescue"},
			"storage":    {"noop", "fake"},
			"vendor":     {"fake", "no-vendor"},
		},
	}
}
