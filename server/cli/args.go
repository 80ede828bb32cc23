package cli

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of each command before its other arguments, and
// the application's own before the first command, so that "node deploy n1
// --wait -o json" means what it says: the library stops looking for flags at
// the first argument that is none.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 || args[len(args)-1] == completeFlag {
		return args
	}
	if len(args) > 2 && args[1] == "help" { // "help node deploy" is "node deploy --help"
		args = slices.Concat(args[:1], args[2:], []string{"--help"})
	}
	var top, commands []string
	rest, own, subs := args[1:], app.Flags, app.Commands
	for {
		l := parse(rest, own, app.Flags, subs)
		top = append(top, l.top...)
		commands = append(commands, l.own...)
		if l.sub == nil {
			commands = append(commands, l.others...)
			return slices.Concat(args[:1], top, commands)
		}
		commands = append(commands, l.sub.Name)
		rest, own, subs = l.rest, l.sub.Flags, l.sub.Subcommands
	}
}

// A level is what stands on a command line up to the next sub-command.
type level struct {
	top, own, others []string // flags of the application, of the command, arguments
	sub              *cli.Command
	rest             []string // after sub
}

func parse(args []string, own, global []cli.Flag, subs []*cli.Command) (l level) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			l.others = append(l.others, args[i:]...)
			return l
		case len(a) > 1 && a[0] == '-':
			n := 1
			if i+1 < len(args) && (takesValue(own, a) || !known(own, a) && takesValue(global, a)) {
				n = 2
			}
			if known(own, a) || !known(global, a) {
				l.own = append(l.own, args[i:i+n]...)
			} else {
				l.top = append(l.top, args[i:i+n]...)
			}
			i += n - 1
		case len(l.others) == 0 && find(subs, a) != nil:
			l.sub, l.rest = find(subs, a), args[i+1:]
			return l
		default:
			l.others = append(l.others, a)
		}
	}
	return l
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
