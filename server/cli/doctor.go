package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/server"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name: "doctor", Usage: "say what this host lacks to run the appliance, and how to mend it", ArgsUsage: " ",
		UsageText: "bessemer doctor --provisioning-interface eth1",
		Flags:     settingFlags(),
		Action: func(c *cli.Context) error {
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			findings := server.Doctor(c.Context, cfg)
			grave := 0
			for _, f := range findings {
				if !f.Well && f.Grave {
					grave++
				}
			}
			if done, err := printData(c, findings); err != nil {
				return err
			} else if !done {
				printFindings(c, findings)
			}
			if grave > 0 {
				return fmt.Errorf("the appliance cannot work like this: %s to mend, marked ✗", count(grave, "fault"))
			}
			return nil
		},
	}
}

func printFindings(c *cli.Context, findings []server.Finding) {
	for _, f := range findings {
		sign := map[bool]string{true: "✓", false: "!"}[f.Well]
		if !f.Well && f.Grave {
			sign = "✗"
		}
		fmt.Fprintf(c.App.Writer, "%s %s: %s\n", sign, f.What, printable(f.Says))
		for line := range strings.Lines(f.Fix) {
			fmt.Fprintf(c.App.Writer, "    → %s\n", printable(strings.TrimSpace(line)))
		}
	}
}
