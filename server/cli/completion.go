package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

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

// completeFlag, as the last argument, has the library print what could come
// next instead of doing anything.
const completeFlag = "--generate-bash-completion"

// completions are the scripts that ask the program itself; a word that begins
// with a dash goes along, so that it offers flags.
var completions = map[string]string{
	"bash": `_bessemer() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  if [[ "$cur" == -* ]]; then words+=("$cur"); fi
  COMPREPLY=($(compgen -W "$("${words[@]}" ` + completeFlag + ` 2>/dev/null)" -- "$cur"))
}
complete -o default -F _bessemer bessemer
`,
	"zsh": `#compdef bessemer
_bessemer() {
  local -a asked found
  asked=("${(@)words[1,CURRENT-1]}")
  if [[ "${words[CURRENT]}" == -* ]]; then asked+=("${words[CURRENT]}"); fi
  found=("${(@f)$(${asked} ` + completeFlag + ` 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
compdef _bessemer bessemer
`,
}
