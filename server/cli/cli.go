// Package cli is the command line: one file for each group of commands. Most
// commands call a running appliance through server/client; serve runs one.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"bessemer/bmc"
	"bessemer/server/client"
)

// Exit codes.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitNotFound
	exitTimeout
	exitConflict
	exitInterrupted = 130 // as shells have it for SIGINT
)

// Main runs the command line and returns the exit code. types are the
// hardware types that serve is to have.
func Main(args []string, types bmc.Types, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	app := newApp(types, out, errOut)
	err := app.RunContext(ctx, flagsFirst(app, args))
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	fmt.Fprintf(errOut, "bessemer: %v%s\n", err, advice(err))
	return exitCode(err)
}

func newApp(types bmc.Types, out, errOut io.Writer) *cli.App {
	return &cli.App{
		Name:                 "bessemer",
		Usage:                "bare-metal provisioner",
		Description:          "bessemer serve runs the appliance; the other commands talk to one.\n\nExit codes: 0 done, 1 failure, 2 wrong usage, 3 not found, 4 timed out, 5 conflict,\n130 interrupted.",
		Version:              Version(),
		EnableBashCompletion: true,
		HideVersion:          true,
		Suggest:              true,
		Writer:               out,
		ErrWriter:            errOut,
		ExitErrHandler:       func(*cli.Context, error) {},
		OnUsageError:         usageError,
		CommandNotFound:      func(*cli.Context, string) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("there is no command %q; see bessemer --help", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, EnvVars: []string{"BESSEMER_CONFIG"}, Usage: "configuration `FILE`"},
			&cli.StringFlag{Name: "url", EnvVars: []string{"BESSEMER_URL"}, Usage: "the appliance's `URL` (default: the local one)"},
			&cli.StringFlag{Name: "user", EnvVars: []string{"BESSEMER_USER"}, Usage: "user `NAME`; the password comes from BESSEMER_PASSWORD (default: admin, with the secret in the data directory)"},
			&cli.StringFlag{Name: "ca", EnvVars: []string{"BESSEMER_CA"}, Usage: "certificate `FILE` (PEM) to trust"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, EnvVars: []string{"BESSEMER_OUTPUT"}, Value: "table", Usage: "table, json or yaml"},
		},
		Before:   checkOutput,
		Commands: commands(types),
	}
}

func commands(types bmc.Types) []*cli.Command {
	all := []*cli.Command{
		serveCommand(types), demoCommand(types), benchCommand(), statusCommand(), doctorCommand(),
		nodeCommand(), portCommand(), imageCommand(), ramdiskCommand(), driverCommand(), discoveredCommand(), simCommand(),
		backupCommand(), restoreCommand(), checkCommand(),
		licensesCommand(), versionCommand(), completionCommand(),
	}
	for _, c := range all {
		strict(c)
	}
	return all
}

// strict makes unknown flags and sub-commands and needless arguments usage
// errors everywhere, and the help of all commands alike.
func strict(c *cli.Command) {
	c.OnUsageError = usageError
	examples(c)
	for _, f := range c.Flags {
		if b, ok := f.(*cli.BoolFlag); ok {
			b.DisableDefaultText = true
		}
	}
	for _, s := range c.Subcommands {
		strict(s)
	}
	if c.ArgsUsage == " " {
		c.Action = noArguments(c.Action)
	}
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return usagef("there is no %q; see %s --help", ctx.Args().First(), ctx.Command.HelpName)
			}
			return cli.ShowSubcommandHelp(ctx)
		}
	}
}

func noArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return usagef("%s takes no arguments; got %q", c.Command.HelpName, c.Args().First())
		}
		return action(c)
	}
}

// examples moves what stands in UsageText to the description's end: in its own
// place it would take that of the line that says how the command is called.
func examples(c *cli.Command) {
	if c.UsageText == "" {
		return
	}
	c.Description = strings.TrimLeft(c.Description+"\n\nExamples:\n   "+strings.ReplaceAll(c.UsageText, "\n", "\n   "), "\n")
	c.UsageText = ""
}

func checkOutput(c *cli.Context) error {
	switch c.String("output") {
	case "table", "json", "yaml":
		return nil
	}
	return usagef("--output %s: it is table, json or yaml", c.String("output"))
}

// A usage is an error in how the command was called.
type usage struct{ error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

func usageError(_ *cli.Context, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: "); ok {
		return usagef("there is no flag %s here; see --help", name)
	}
	return usage{err}
}

func exitCode(err error) int {
	if _, ok := errors.AsType[usage](err); ok {
		return exitUsage
	}
	switch {
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return exitFailure
	case e.Status == http.StatusNotFound:
		return exitNotFound
	case e.Status == http.StatusConflict:
		return exitConflict
	case e.Status == http.StatusGatewayTimeout:
		return exitTimeout
	}
	return exitFailure
}
