// Bessemer provisions bare metal: it finds machines, drives their controllers,
// boots them over the network, writes images to their disks and hands them
// over. This program is the appliance and its command line.
package main

import (
	"os"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/bmc/ipmi"
	"bessemer/bmc/redfish"
	"bessemer/server/cli"
)

// types are the hardware types that a node's driver may name.
var types = bmc.Types{
	"redfish":       redfish.Type(),
	"ipmi":          ipmi.Type(),
	"fake-hardware": fake.Type(),
}

func main() {
	os.Exit(cli.Main(os.Args, types, os.Stdout, os.Stderr))
}
