package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"bessemer/server/client"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "the version of this program", ArgsUsage: " ",
		Action: func(c *cli.Context) error {
			return printOne(c, map[string]any{
				"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "ironic_api": "1.1 - " + client.Microversion,
			}, []string{"version"}, nil)
		},
	}
}

// Version is the version of this build: the module's, or its commit.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := b.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if rev == "" {
		return "devel"
	}
	return rev + dirty
}
