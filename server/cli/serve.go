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
	"bessemer/configs"
	"bessemer/server"
)

func serveCommand(types bmc.Types) *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "run the appliance", ArgsUsage: " ",
		UsageText: "bessemer serve\nbessemer serve --provisioning-interface eth1\nbessemer serve --config /etc/bessemer/bessemer.yaml",
		Description: "Without a file or a flag the API comes up on 127.0.0.1:6385. With a provisioning interface\n" +
			"machines can be booted: that needs root, or the capabilities net_bind_service, net_raw and net_admin.\n\n" +
			"Every flag is also a setting in the file and a variable; --print-config shows them all.",
		Flags: append([]cli.Flag{&cli.BoolFlag{Name: "print-config", Usage: "print the annotated default configuration and end"}}, settingFlags()...),
		Action: func(c *cli.Context) error {
			if c.Bool("print-config") {
				_, err := io.WriteString(c.App.Writer, configs.Example)
				return err
			}
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			s, err := server.Open(c.Context, server.Options{
				Config: cfg, Types: types, Version: Version(), Log: logger(cfg.Log, c.App.ErrWriter),
			})
			if err != nil {
				return err
			}
			fmt.Fprint(c.App.Writer, s.Banner())
			return s.Run(c.Context)
		},
	}
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
