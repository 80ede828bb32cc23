package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "the version of this program", ArgsUsage: " ",
		Action: func(c *cli.Context) error {
			return printOne(c, map[string]any{
				"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "ironic_api": "1.1 - 1.82",
			})
		},
	}
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the completion script of a shell", ArgsUsage: "bash|zsh|fish",
		UsageText: "source <(bessemer completion bash)",
		Action: func(c *cli.Context) error {
			shell, err := one(c, "bash|zsh|fish")
			if err != nil {
				return err
			}
			script, ok := completions[shell]
			if shell == "fish" {
				script, err = c.App.ToFishCompletion()
				ok = err == nil
			}
			if !ok {
				return usagef("%q: it is bash, zsh or fish", shell)
			}
			fmt.Fprint(c.App.Writer, script)
			return nil
		},
	}
}

var completions = map[string]string{
	"bash": `_bessemer() {
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _bessemer bessemer
`,
	"zsh": `#compdef bessemer
_bessemer() {
  local -a found
  found=("${(@f)$(${words[1,CURRENT-1]} --generate-bash-completion 2>/dev/null)}")
  compadd -a found
}
compdef _bessemer bessemer
`,
}

func licensesCommand() *cli.Command {
	return &cli.Command{
		Name: "licenses", Usage: "what this program is made of, and under which terms", ArgsUsage: " ",
		Action: func(c *cli.Context) error {
			fmt.Fprintln(c.App.Writer, strings.TrimSpace(licenseText))
			if b, ok := debug.ReadBuildInfo(); ok {
				fmt.Fprintln(c.App.Writer, "\nGo modules in this binary; each comes with its licence from its own source:")
				for _, m := range b.Deps {
					fmt.Fprintf(c.App.Writer, "  %s %s\n", m.Path, m.Version)
				}
			}
			return nil
		},
	}
}
