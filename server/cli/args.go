package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of each command before its other arguments, so
// that "node deploy n1 --wait" means what it says: the library stops looking
// for flags at the first argument that is none.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out, rest := []string{args[0]}, args[1:]
	global := app.Flags
	flags, subs := app.Flags, app.Commands
	for {
		var fs, others []string
		var sub *cli.Command
		i := 0
		for ; i < len(rest) && sub == nil; i++ {
			a := rest[i]
			switch {
			case a == "--":
				others = append(others, rest[i:]...)
				i = len(rest)
			case len(a) > 1 && a[0] == '-':
				n := 1
				if takesValue(flags, a) && i+1 < len(rest) {
					n = 2
				}
				fs = append(fs, rest[i:i+n]...)
				i += n - 1
			case len(others) == 0 && find(subs, a) != nil:
				sub = find(subs, a)
			default:
				others = append(others, a)
			}
		}
		if sub == nil {
			top, own := split(global, flags, fs)
			out = slices.Insert(out, 1, top...)
			return append(append(out, own...), others...)
		}
		out = append(append(out, fs...), sub.Name)
		rest, flags, subs = rest[i:], append(slices.Clone(sub.Flags), global...), sub.Subcommands
	}
}

// split parts the flags that only the application has from a command's own.
func split(global, own []cli.Flag, args []string) (top, rest []string) {
	only := own[:len(own)-min(len(own), len(global))]
	if len(only) == 0 && len(own) == len(global) {
		only = own
	}
	for i := 0; i < len(args); i++ {
		n := 1
		if !strings.Contains(args[i], "=") && takesValue(own, args[i]) && i+1 < len(args) {
			n = 2
		}
		if known(only, args[i]) || !known(global, args[i]) {
			rest = append(rest, args[i:i+n]...)
		} else {
			top = append(top, args[i:i+n]...)
		}
		i += n - 1
	}
	return top, rest
}

func find(cs []*cli.Command, name string) *cli.Command {
	for _, c := range cs {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name
}

func known(flags []cli.Flag, arg string) bool {
	return slices.ContainsFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), flagName(arg)) })
}

// takesValue tells whether the argument after arg is its value.
func takesValue(flags []cli.Flag, arg string) bool {
	if strings.Contains(arg, "=") {
		return false
	}
	for _, f := range flags {
		if slices.Contains(f.Names(), flagName(arg)) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}
