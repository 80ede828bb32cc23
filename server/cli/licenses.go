package cli

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"bessemer/pxe/ipxe"
)

//go:embed licenses.txt
var licenseText string

func licensesCommand() *cli.Command {
	return &cli.Command{
		Name: "licenses", Usage: "what this program is made of, and under which terms", ArgsUsage: " ",
		Action: func(c *cli.Context) error {
			modules := []string{}
			if b, ok := debug.ReadBuildInfo(); ok {
				for _, m := range b.Deps {
					modules = append(modules, m.Path+" "+m.Version)
				}
			}
			if done, err := printData(c, map[string]any{"program": "Apache-2.0", "data": ipxe.Licences(), "go_modules": modules}); done {
				return err
			}
			writeLicences(c.App.Writer, ipxe.Licences(), modules)
			return nil
		},
	}
}

func writeLicences(w io.Writer, data []ipxe.Licence, modules []string) {
	fmt.Fprintf(w, "%s\n\nCarried as data, handed to machines and not run here:\n", strings.TrimSpace(licenseText))
	for _, l := range data {
		fmt.Fprintf(w, "\n  %s (%s)\n    files    %s\n    version  %s\n    source   %s\n    build    %s\n%s", l.Name, l.SPDX,
			strings.Join(l.Files, ", "), l.Version, l.Source, l.Build, wrap(l.Notice, "    ", 78))
	}
	fmt.Fprintln(w, "\nGo modules in this binary; each comes with its licence from its own source:")
	for _, m := range modules {
		fmt.Fprintf(w, "  %s\n", m)
	}
}

// wrap breaks text into lines of at most width characters, where words allow.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
