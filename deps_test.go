package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// imports says which packages of this module each package may import. It is
// the table of ARCHITECTURE.md; a new package is a new line, with a reason
// there. A name that ends in /... stands for all packages below.
var imports = map[string]string{
	"store":                    "",
	"store/storetest":          "store",
	"configs":                  "",
	"ui":                       "",
	"agent/wire":               "",
	"agent/fetch":              "",
	"agent/hw":                 "agent/wire",
	"agent/image":              "agent/fetch agent/hw agent/wire",
	"agent/disk":               "agent/fetch agent/hw agent/wire agent/image",
	"agent/boot":               "agent/wire agent/hw",
	"agent":                    "agent/wire agent/hw agent/fetch agent/image agent/disk",
	"agent/cmd/bessemer-agent": "agent agent/boot agent/hw agent/fetch agent/wire",
	"bmc":                      "store",
	"bmc/fake":                 "bmc store",
	"bmc/redfish":              "bmc store",
	"bmc/ipmi":                 "bmc store",
	"bmc/bmctest":              "bmc store store/storetest",
	"bmc/sim":                  "bmc bmc/sim/flaw pxe store agent/...",
	"bmc/sim/firmware":         "bmc/sim/flaw",
	"bmc/sim/flaw":             "",
	"bmc/sim/ipmi":             "bmc bmc/sim bmc/sim/flaw store",
	"bmc/sim/lab":              "bmc bmc/sim store",
	"bmc/sim/rack":             "bmc bmc/sim bmc/sim/... store agent agent/...",
	"bmc/sim/tinyos":           "agent/disk agent/hw",
	"bmc/sim/hardware":         "bmc/sim bmc/sim/flaw bmc/sim/tinyos agent/...",
	"pxe":                      "store",
	"pxe/dhcp":                 "pxe store",
	"pxe/ra":                   "pxe store",
	"pxe/tftp":                 "pxe store",
	"pxe/ipxe":                 "pxe store",
	"pxe/httpd":                "pxe pxe/ipxe store",
	"pxe/ramdisk":              "pxe store",
	"pxe/images":               "pxe store agent/fetch",
	"server/prove":             "", // tests only
	"server/trace":             "store",
	"server/auth":              "store",
	"server/conductor":         "store bmc pxe pxe/images agent/wire agent/fetch",
	"server/api":               "store bmc pxe/images server/auth server/conductor server/trace agent/wire",
	"server/client":            "",
	"server/load":              "server/client",
	"server/cli":               "store bmc configs pxe pxe/... server server/auth server/client server/trace agent/fetch ui bmc/sim/flaw bmc/sim/hardware bmc/sim/rack bmc/sim/firmware bmc/sim/tinyos server/load",
	"server":                   "store bmc configs pxe pxe/... server/api server/auth server/conductor agent/fetch ui bmc/sim/firmware",
}

func TestDependencyDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "bessemer/"
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		pkg, ok := strings.CutPrefix(f[0], module)
		if !ok {
			continue // main may import all
		}
		allowed, known := imports[pkg]
		if !known {
			t.Errorf("package %s: add it to this table and to ARCHITECTURE.md, with the reason", pkg)
		}
		for _, imp := range f[1:] {
			if dep, ours := strings.CutPrefix(imp, module); ours && !mayImport(strings.Fields(allowed), dep) {
				t.Errorf("%s imports %s", pkg, dep)
			}
		}
	}
}

func mayImport(allowed []string, dep string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		below, all := strings.CutSuffix(a, "...")
		return a == dep || all && strings.HasPrefix(dep, below)
	})
}

// TestOnlyTheStoreKnowsItsEngine keeps bbolt inside store, so that another
// engine can take its place.
func TestOnlyTheStoreKnowsItsEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if f[0] != "bessemer/store" && slices.Contains(f[1:], "go.etcd.io/bbolt") {
			t.Errorf("%s imports bbolt", f[0])
		}
	}
}

// TestAgentStaysSmall keeps what would bloat or endanger the ramdisk out of
// the agent.
func TestAgentStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./agent/cmd/bessemer-agent").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for dep, why := range map[string]string{
		"bessemer/store":           "the ramdisk keeps no state",
		"github.com/urfave/cli/v2": "its templates keep every method in the binary",
		"net/http/pprof":           "it would serve the agent's memory to anyone",
		"go.etcd.io/bbolt":         "the ramdisk keeps no state",
		"plugin":                   "no code is loaded",
	} {
		if slices.Contains(deps, dep) {
			t.Errorf("bessemer-agent depends on %s: %s", dep, why)
		}
	}
}
