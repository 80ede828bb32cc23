package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"bessemer/pxe/ramdisk"
)

func ramdiskCommand() *cli.Command {
	return &cli.Command{
		Name: "ramdisk", Usage: "the system that machines boot to be deployed",
		Subcommands: []*cli.Command{
			{
				Name: "build", Usage: "make it from a Linux kernel and the agent", ArgsUsage: " ",
				UsageText: "bessemer ramdisk build\nbessemer ramdisk build --kernel k/boot/vmlinuz-6.1.0-1-amd64 --modules k/lib/modules/6.1.0-1-amd64",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "kernel", Usage: "kernel image `FILE` (default: this host's)"},
					&cli.StringFlag{Name: "modules", Usage: "its modules' `DIR`ectory"},
					&cli.StringFlag{Name: "firmware", Usage: "firmware `DIR`ectory (default: /lib/firmware)"},
					&cli.StringSliceFlag{Name: "module", Usage: "a further `MODULE` to pack and load"},
					&cli.StringFlag{Name: "dir", Usage: "where to put it (default: the data directory's ramdisk)"},
				},
				Action: ramdiskBuild,
			},
			{
				Name: "show", Usage: "what the present one is made of", ArgsUsage: " ",
				Action: func(c *cli.Context) error {
					cfg, err := loadConfig(c)
					if err != nil {
						return err
					}
					r, err := ramdisk.Open(cfg.Path("ramdisk"))
					if err != nil {
						return err
					}
					return printManifest(c, r.Manifest)
				},
			},
		},
	}
}

func ramdiskBuild(c *cli.Context) error {
	cfg, err := loadConfig(c)
	if err != nil {
		return err
	}
	o := ramdisk.Host()
	o.Kernel, o.ModulesDir, o.Modules = c.String("kernel"), c.String("modules"), c.StringSlice("module")
	if f := c.String("firmware"); f != "" {
		o.FirmwareDir = f
	}
	o.Log = logger(cfg.Log, c.App.ErrWriter)
	dir := c.String("dir")
	if dir == "" {
		dir = cfg.Path("ramdisk")
	}
	report, err := ramdisk.Build(c.Context, o, dir)
	if err != nil {
		return err
	}
	if len(report.Missing) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "not found, needed only by some hardware: %s\n", strings.Join(report.Missing, ", "))
	}
	return printManifest(c, report.Manifest)
}

func printManifest(c *cli.Context, m ramdisk.Manifest) error {
	if done, err := printData(c, m); done {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "kernel %s\t%s\n", m.KernelVersion, bytesText(float64(m.Kernel.Size)))
	for _, p := range m.Parts {
		fmt.Fprintf(w, "  %s\t%s\n", p.Name, bytesText(float64(p.Size)))
	}
	fmt.Fprintf(w, "initrd, compressed\t%s\ntotal to boot\t%s\n", bytesText(float64(m.Initrd.Size)), bytesText(float64(m.Total())))
	return w.Flush()
}
