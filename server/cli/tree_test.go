package cli

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// eachCommand calls f for every command, with the names on the way to it.
func eachCommand(path []string, cs []*cli.Command, f func(path []string, c *cli.Command)) {
	for _, c := range cs {
		p := append(slices.Clone(path), c.Name)
		f(p, c)
		eachCommand(p, c.Subcommands, f)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	seen := 0
	eachCommand([]string{"bessemer"}, app.Commands, func(path []string, c *cli.Command) {
		seen++
		name := strings.Join(path, " ")
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") {
			t.Errorf("%s: usage %q: want a phrase without a full stop", name, c.Usage)
		}
		if len(c.Subcommands) > 0 {
			return
		}
		if c.ArgsUsage == "" {
			t.Errorf("%s: says nothing about its arguments; \" \" stands for none", name)
		}
		for line := range strings.Lines(c.Description) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "bessemer ") && !strings.Contains(line, path[len(path)-1]) && !strings.Contains(line, "bessemer node trace") {
				t.Errorf("%s: the example %q is one of another command", name, line)
			}
		}
	})
	if seen < 40 {
		t.Errorf("only %d commands were looked at", seen)
	}
}

func TestEveryFlagHasHelpAndItsOwnName(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	eachCommand([]string{"bessemer"}, app.Commands, func(path []string, c *cli.Command) {
		name := strings.Join(path, " ")
		taken := map[string]bool{"help": true, "h": true}
		for _, f := range app.Flags {
			for _, n := range f.Names() {
				taken[n] = true
			}
		}
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				if taken[n] {
					t.Errorf("%s: there are two flags -%s", name, n)
				}
				taken[n] = true
			}
			if d, ok := f.(cli.DocGenerationFlag); !ok || d.GetUsage() == "" {
				t.Errorf("%s: --%s has no help", name, f.Names()[0])
			}
		}
	})
}

// The help of every command says how it is called, and that is shown without
// an appliance and without an error.
func TestHelpOfEveryCommand(t *testing.T) {
	eachCommand([]string{"bessemer"}, newApp(nil, io.Discard, io.Discard).Commands, func(path []string, c *cli.Command) {
		var out, errOut bytes.Buffer
		code := Main(append(slices.Clone(path), "--help"), nil, &out, &errOut)
		line := strings.TrimRight(strings.Join(path, " ")+" [command options] "+c.ArgsUsage, " ")
		if len(c.Subcommands) > 0 {
			line = strings.Join(path, " ") + " "
		}
		if code != exitOK || errOut.Len() > 0 || !strings.Contains(out.String(), line) {
			t.Errorf("%s --help: exit code %d, %q; want a line %q in\n%s", strings.Join(path, " "), code, errOut.String(), line, &out)
		}
	})
}

// A wrong call is answered before anything is asked of an appliance.
func TestTooManyArguments(t *testing.T) {
	t.Setenv("BESSEMER_URL", "http://127.0.0.1:1")
	t.Setenv("BESSEMER_DATA_DIR", t.TempDir())
	eachCommand([]string{"bessemer"}, newApp(nil, io.Discard, io.Discard).Commands, func(path []string, c *cli.Command) {
		if len(c.Subcommands) > 0 || strings.HasSuffix(c.ArgsUsage, "...") {
			return
		}
		var out, errOut bytes.Buffer
		if code := Main(append(slices.Clone(path), "a", "b", "c", "d"), nil, &out, &errOut); code != exitUsage {
			t.Errorf("%s a b c d: exit code %d, %s", strings.Join(path, " "), code, &errOut)
		}
	})
}
