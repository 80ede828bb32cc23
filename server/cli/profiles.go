package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/bmc/sim/hardware"
	"bessemer/configs"
)

func simProfiles() *cli.Command {
	return &cli.Command{
		Name: "profiles", Usage: "list the kinds of machines that can be simulated", ArgsUsage: " ",
		UsageText: "bessemer sim profiles\nbessemer sim profiles -o json",
		Action: func(c *cli.Context) error {
			rows := []map[string]any{}
			for _, p := range hardware.Profiles() {
				rows = append(rows, map[string]any{
					"name": p.Name, "model": p.Manufacturer + " " + p.Model, "cpus": float64(p.CPUs), "memory_mb": float64(p.MemoryMiB),
					"disks": disksText(p.Disks), "ports": float64(len(p.NICs)), "boot_modes": strings.Join(p.Modes, ", "),
					"post": configs.Duration(p.POST).String(),
				})
			}
			return printList(c, rows, columns("name", "model", "cpus", "memory_mb=memory MB", "ports", "disks", "boot_modes", "post=POST"))
		},
	}
}

// disksText is "2 × 960 GB, 240 GB": those of one size together.
func disksText(disks []hardware.Disk) string {
	var words []string
	for i := 0; i < len(disks); {
		n := 1
		for i+n < len(disks) && disks[i+n].Size == disks[i].Size {
			n++
		}
		word := bytesText(float64(disks[i].Size))
		if n > 1 {
			word = fmt.Sprintf("%d × %s", n, word)
		}
		words = append(words, word)
		i += n
	}
	return strings.Join(words, ", ")
}
