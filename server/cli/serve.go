package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"bessemer/bmc"
	"bessemer/bmc/sim/rack"
	"bessemer/configs"
	"bessemer/server"
)

func serveCommand(types bmc.Types) *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "run the appliance", ArgsUsage: " ",
		UsageText: "bessemer serve\nbessemer serve --provisioning-interface eth1\nbessemer serve --config /etc/bessemer/bessemer.yaml\nbessemer serve --sim 8 --data-dir /tmp/try",
		Description: "Without a file or a flag the API comes up on 127.0.0.1:6385. With a provisioning interface\n" +
			"machines can be booted: that needs root, or the capabilities net_bind_service, net_raw and net_admin.\n\n" +
			"With --sim N it also runs N simulated machines, enrolled and available; that needs no privileges.\n\n" +
			"Every flag but those of simulated machines is also a setting in the file and a variable; --print-config shows them all.",
		Flags: append([]cli.Flag{&cli.BoolFlag{Name: "print-config", Usage: "print the annotated default configuration and end"}}, append(simFlags(), settingFlags()...)...),
		Action: func(c *cli.Context) error {
			if c.Bool("print-config") {
				_, err := io.WriteString(c.App.Writer, configs.Example)
				return err
			}
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			return serve(c, types, cfg)
		},
	}
}

// simFlags are the flags of a rack in the appliance's process.
func simFlags() []cli.Flag {
	n := &cli.IntFlag{Name: "sim", Category: simCategory, Usage: "run `N` simulated machines, on the provisioning interface sim", DefaultText: "none"}
	quiet := &cli.BoolFlag{Name: "sim-no-enroll", Category: simCategory, Usage: "do not make nodes of them"}
	return append([]cli.Flag{n, quiet}, rackFlags("sim-", simCategory, usualPace)...)
}

func serve(c *cli.Context, types bmc.Types, cfg configs.Config) error {
	o, err := simOptions(c)
	if err != nil {
		return err
	}
	log := logger(cfg.Log, c.App.ErrWriter)
	s, err := server.Open(c.Context, server.Options{Config: cfg, Types: types, Version: Version(), Log: log})
	if err != nil {
		return err
	}
	banner := s.Banner()
	if c.IsSet("sim") {
		r, err := addRack(s, o, c.Int("sim"), !c.Bool("sim-no-enroll"), log)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		banner += fmt.Sprintf("  %s in %s; see: bessemer sim status\n", count(len(r.Machines()), "simulated machine"), cfg.Path(rackDir))
	}
	fmt.Fprint(c.App.Writer, banner)
	return s.Run(c.Context)
}

// canSimulate tells whether the provisioning interface may be the simulated
// network.
func canSimulate(c configs.Config) bool {
	return c.Provisioning.Interface == "" || c.Provisioning.Interface == configs.Simulated
}

// simOptions reads the flags of simulated machines.
func simOptions(c *cli.Context) (o rack.Options, err error) {
	if !c.IsSet("sim") {
		for _, f := range rackFlags("sim-", simCategory, usualPace) {
			if name := f.Names()[0]; c.IsSet(name) {
				return o, usagef("--%s is of the machines of --sim N", name)
			}
		}
		return o, nil
	}
	if n := c.Int("sim"); n < 1 || n > maxRack {
		return o, usagef("--sim %d: it is a number of machines from 1 to %d", n, maxRack)
	}
	return rackOptions(c, "sim-")
}

// settingFlags makes a flag of every setting.
func settingFlags() []cli.Flag {
	def := configs.Default()
	var fs []cli.Flag
	for _, s := range configs.Settings(&def) {
		section, _, _ := strings.Cut(s.Key, ".")
		fs = append(fs, &cli.StringFlag{Name: s.Flag(), Usage: s.Help, DefaultText: s.String(), Category: section})
	}
	return fs
}

// loadConfig reads the configuration that the command's flags, the
// environment and the file say.
func loadConfig(c *cli.Context) (configs.Config, error) {
	flags := map[string]string{}
	def := configs.Default()
	for _, s := range configs.Settings(&def) {
		if c.IsSet(s.Flag()) {
			flags[s.Flag()] = c.String(s.Flag())
		}
	}
	if c.IsSet("sim") {
		if asked, _ := configs.Load(configFile(c), os.Environ(), flags); !canSimulate(asked) {
			return asked, usagef("--sim: simulated machines are on the provisioning interface sim, and %s is set", asked.Provisioning.Interface)
		}
		flags["provisioning-interface"] = configs.Simulated
	}
	cfg, err := configs.Load(configFile(c), os.Environ(), flags)
	if err != nil {
		err = usagef("configuration:\n  %s", strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return cfg, err
}

// configFile is the file that is asked for, or the usual one if it exists.
func configFile(c *cli.Context) string {
	if f := c.String("config"); f != "" {
		return f
	}
	const usual = "/etc/bessemer/bessemer.yaml"
	if _, err := os.Stat(usual); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return usual
}

func logger(l configs.Log, w io.Writer) zerolog.Logger {
	f, isFile := w.(*os.File)
	console := l.Format == "console" || l.Format == "auto" && isFile && term.IsTerminal(int(f.Fd()))
	if console {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000"}
	}
	level, err := zerolog.ParseLevel(l.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}
