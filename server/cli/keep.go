package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/urfave/cli/v2"

	"bessemer/store"
)

func backupCommand() *cli.Command {
	return &cli.Command{
		Name: "backup", Usage: "write a copy of the appliance's state, also while it runs", ArgsUsage: "FILE|-",
		UsageText:   "bessemer backup bessemer-$(date +%F).backup",
		Description: "The copy is sealed; without the data directory's secret.key it tells nothing. Keep that\nfile as well, elsewhere. Images are not part of the copy.",
		Action: func(c *cli.Context) error {
			file, err := one(c, "FILE|-")
			if err != nil {
				return err
			}
			cl, err := connect(c)
			if err != nil {
				return err
			}
			resp, err := cl.Do(c.Context, http.MethodGet, "/api/v1/backup", "", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if file == "-" {
				_, err = io.Copy(c.App.Writer, resp.Body)
				return err
			}
			n, err := writeNew(file, resp.Body)
			if err != nil {
				return err
			}
			say(c, "%s: %s", file, bytesText(float64(n)))
			return nil
		},
	}
}

// writeNew writes a file that appears under its name only when it is whole.
func writeNew(file string, r io.Reader) (int64, error) {
	if _, err := os.Lstat(file); err == nil {
		return 0, usagef("%s exists; choose another name", file)
	}
	tmp, err := os.OpenFile(file+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(tmp, r)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return 0, errors.Join(err, os.Remove(tmp.Name()))
	}
	return n, nil
}

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name: "restore", Usage: "put a backup in place of the state, while the appliance is stopped", ArgsUsage: "FILE",
		UsageText: "bessemer restore bessemer-2026-01-31.backup\nbessemer restore --force bessemer-2026-01-31.backup",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data-dir", Usage: "the data `DIR`ectory (default: the configuration's)"},
			&cli.BoolFlag{Name: "force", Usage: "replace a state that exists; the old one is kept beside it"},
		},
		Action: func(c *cli.Context) error {
			file, err := one(c, "FILE")
			if err != nil {
				return err
			}
			dir, err := dataDir(c)
			if err != nil {
				return err
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			err = store.Restore(dir, f, store.RestoreOptions{Force: c.Bool("force")})
			if errors.Is(err, store.ErrExists) {
				return fmt.Errorf("restore %s: %w in %s; replace it, which keeps the old one beside it: --force; or choose another: --data-dir DIR", file, store.ErrExists, dir)
			}
			if err != nil {
				return fmt.Errorf("restore %s: %w", file, err)
			}
			say(c, "%s holds the state of %s", dir, file)
			say(c, "its nodes come up in maintenance, for they may have moved on since; look at each, then: bessemer node maintenance off NODE")
			return nil
		},
	}
}

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check the state's file, while the appliance is stopped", ArgsUsage: " ",
		UsageText: "bessemer check --data-dir /var/lib/bessemer",
		Flags:     []cli.Flag{&cli.StringFlag{Name: "data-dir", Usage: "the data `DIR`ectory (default: the configuration's)"}},
		Action: func(c *cli.Context) error {
			dir, err := dataDir(c)
			if err != nil {
				return err
			}
			problems, err := store.CheckFile(c.Context, dir)
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintln(c.App.Writer, p)
			}
			if len(problems) > 0 {
				return fmt.Errorf("%s: %s; restore the last good backup: bessemer restore --force FILE", dir, count(len(problems), "problem"))
			}
			fmt.Fprintf(c.App.Writer, "%s is sound\n", dir)
			return nil
		},
	}
}

func dataDir(c *cli.Context) (string, error) {
	cfg, err := loadConfig(c)
	return cfg.Dir(), err
}
