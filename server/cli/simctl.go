package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"bessemer/bmc/sim/flaw"
	"bessemer/bmc/sim/rack"
	"bessemer/configs"
)

// rackSocket is the file in the data directory by which a rack is controlled,
// be it in the appliance's process or in one of its own.
const rackSocket = "rack.sock"

func simCommand() *cli.Command {
	c := &cli.Command{
		Name: "sim", Usage: "simulated machines: start them, break them, mend them",
		Description: "A simulated rack runs in the appliance's process (bessemer serve --sim N) or beside one that\n" +
			"runs with --provisioning-interface sim (bessemer sim up N), and then survives its death.",
		Subcommands: []*cli.Command{
			simUp(), simDown(), simStatus(), simInject(), simHeal(), simQuirk(), simJournal(), simProfiles(), simQuirks(), simFaults(),
		},
	}
	for _, s := range c.Subcommands {
		if s.Name != "quirks" && s.Name != "faults" && s.Name != "profiles" {
			s.Flags = append(s.Flags, dataDirFlag())
		}
	}
	return c
}

// dataDirFlag is the setting data_dir as a flag.
func dataDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "data-dir", Usage: "the appliance's data `DIR`ectory, in which the rack is kept"}
}

func controlSocket(cfg configs.Config) string { return cfg.Path(rackDir, rackSocket) }

// theRack returns a client of the rack that runs, or says how to start one.
func theRack(c *cli.Context) (*rack.Client, error) {
	cfg, err := loadConfig(c)
	if err != nil {
		return nil, err
	}
	path := controlSocket(cfg)
	if err := reaches(path); err != nil {
		return nil, fmt.Errorf("no simulated rack answers at %s: %w; start one with bessemer serve --sim N, or with bessemer sim up N; "+
			"the rack of another appliance: --data-dir DIR", path, err)
	}
	return rack.NewClient(path), nil
}

// reaches tells whether somebody listens on a unix socket.
func reaches(path string) error {
	conn, err := net.Dial("unix", path)
	if err != nil {
		if e, ok := errors.AsType[syscall.Errno](err); ok {
			return e
		}
		return err
	}
	return conn.Close()
}

func simStatus() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "what the simulated machines do", ArgsUsage: " ",
		UsageText: "bessemer sim status\nbessemer sim status -o json",
		Action: func(c *cli.Context) error {
			r, err := theRack(c)
			if err != nil {
				return err
			}
			list, err := r.Status(c.Context)
			if err != nil {
				return err
			}
			rows := []map[string]any{}
			for _, s := range list {
				row, err := object(s)
				if err != nil {
					return err
				}
				if c.String("output") == "table" {
					row["doing"], row["wrong"] = doingOf(s), wrongWith(s)
				}
				rows = append(rows, row)
			}
			return printList(c, rows, columns("name=machine", "profile", "bmc", "power", "doing", "lease=address", "wrong"))
		},
	}
}

// object is a value as JSON has it.
func object(v any) (m map[string]any, err error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return m, json.Unmarshal(raw, &m)
}

func doingOf(s rack.Status) string {
	switch {
	case s.Hostname != "":
		return string(s.Stage) + " " + s.Hostname
	case s.Why != "":
		return string(s.Stage) + ": " + clip(strings.TrimPrefix(s.Why, "no bootable device: "), clipped)
	}
	return string(s.Stage)
}

// wrongWith names what a machine does wrong now.
func wrongWith(s rack.Status) string {
	var words []string
	for _, q := range s.Quirks {
		words = append(words, string(q))
	}
	for _, f := range s.Faults {
		words = append(words, f.String())
	}
	return strings.Join(words, " ")
}

func simInject() *cli.Command {
	return &cli.Command{
		Name: "inject", Usage: "break something about a simulated machine", ArgsUsage: "MACHINE|all FAULT...",
		Description: "A fault is KIND or KIND:KEY=VALUE,...; bessemer sim faults lists the kinds.\n" + faultKeysText,
		UsageText:   "bessemer sim inject sim-003 bmc-hang\nbessemer sim inject all packet-loss:rate=0.3 bmc-slow:delay=2s,rate=0.1\nbessemer sim inject sim-001 power-loss:at=512K",
		Action: func(c *cli.Context) error {
			if c.NArg() < 2 {
				return usagef("usage: %s MACHINE|all FAULT...; bessemer sim faults lists them", c.Command.HelpName)
			}
			var faults []flaw.Fault
			for _, text := range c.Args().Tail() {
				f, err := flaw.ParseFault(text)
				if err != nil {
					return usage{err}
				}
				faults = append(faults, f)
			}
			r, err := theRack(c)
			if err != nil {
				return err
			}
			by, err := r.Inject(c.Context, c.Args().First(), faults...)
			if err != nil {
				return err
			}
			return told(c, by, "faults")
		},
	}
}

func simHeal() *cli.Command {
	return &cli.Command{
		Name: "heal", Usage: "end injected faults", ArgsUsage: "MACHINE|all [KIND]...",
		UsageText: "bessemer sim heal all\nbessemer sim heal sim-003 bmc-hang",
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef("usage: %s MACHINE|all [KIND]...", c.Command.HelpName)
			}
			var kinds []flaw.Kind
			for _, k := range c.Args().Tail() {
				if !slices.Contains(flaw.Kinds(), flaw.Kind(k)) {
					return usagef("there is no fault %q; bessemer sim faults lists them", k)
				}
				kinds = append(kinds, flaw.Kind(k))
			}
			r, err := theRack(c)
			if err != nil {
				return err
			}
			if err := r.Heal(c.Context, c.Args().First(), kinds...); err != nil {
				return err
			}
			say(c, "healed %s", c.Args().First())
			return nil
		},
	}
}

func simQuirk() *cli.Command {
	return &cli.Command{
		Name: "quirk", Usage: "turn quirks of a simulated machine on (+) and off (-)", ArgsUsage: "MACHINE|all [+ID,-ID...]",
		Description: "The machine keeps them when its rack is started again; bessemer sim quirks lists them.",
		UsageText:   "bessemer sim quirk sim-003 +B-02,-R-06\nbessemer sim quirk all --off B-02,R-06",
		Flags:       []cli.Flag{&cli.StringFlag{Name: "off", Usage: "`ID,...` of quirks to turn off"}},
		Action: func(c *cli.Context) error {
			if c.NArg() < 1 || c.NArg() > 2 {
				return usagef("usage: %s MACHINE|all [+ID,-ID...] [--off ID,...]", c.Command.HelpName)
			}
			on, off, err := parseTurns(c.Args().Get(1), c.String("off"))
			if err != nil {
				return usage{err}
			}
			r, err := theRack(c)
			if err != nil {
				return err
			}
			by, err := r.Turn(c.Context, c.Args().First(), on, off)
			if err != nil {
				return err
			}
			return told(c, by, "quirks")
		},
	}
}

// parseTurns reads "+B-02,-R-06", in which an id alone is turned on, and ids to
// turn off.
func parseTurns(text, alsoOff string) (on, off []flaw.ID, err error) {
	var ons []string
	offs := []string{alsoOff}
	for word := range strings.SplitSeq(text, ",") {
		if id, ok := strings.CutPrefix(strings.TrimSpace(word), "-"); ok {
			offs = append(offs, id)
		} else {
			ons = append(ons, strings.TrimPrefix(strings.TrimSpace(word), "+"))
		}
	}
	on, err1 := flaw.ParseIDs(strings.Join(ons, ","))
	off, err2 := flaw.ParseIDs(strings.Join(offs, ","))
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	if len(on)+len(off) == 0 {
		return nil, nil, errors.New("no quirk is named; bessemer sim quirks lists them")
	}
	return on, off, nil
}

// told shows what each machine has now: one line per machine.
func told[T any](c *cli.Context, by map[string][]T, what string) error {
	if done, err := printData(c, by); done {
		return err
	}
	rows := []map[string]any{}
	for _, name := range sortedKeys(by) {
		var words []string
		for _, v := range by[name] {
			words = append(words, fmt.Sprint(v))
		}
		rows = append(rows, map[string]any{"machine": name, what: strings.Join(words, " ")})
	}
	return printList(c, rows, columns("machine", what))
}

func simJournal() *cli.Command {
	return &cli.Command{
		Name: "journal", Usage: "what happened to a simulated machine, as it tells it itself", ArgsUsage: "MACHINE",
		UsageText: "bessemer sim journal sim-003",
		Action: func(c *cli.Context) error {
			name, err := one(c, "MACHINE")
			if err != nil {
				return err
			}
			r, err := theRack(c)
			if err != nil {
				return err
			}
			events, err := r.Journal(c.Context, name)
			if err != nil {
				return err
			}
			rows := []map[string]any{}
			for _, e := range events {
				row, err := object(e)
				if err != nil {
					return err
				}
				if c.String("output") == "table" {
					row["details"] = clip(eventText(e), 100)
				}
				rows = append(rows, row)
			}
			return printList(c, rows, columns("seq=no", "time", "start", "kind", "by", "what", "details"))
		},
	}
}

func eventText(e rack.Event) string {
	switch e.Kind {
	case rack.Write:
		return fmt.Sprintf("%s: %s in bytes %d to %d", e.Disk, bytesText(float64(e.Bytes)), e.First, e.Last)
	case rack.Home:
		return fmt.Sprintf("%s, instance %s", e.Hostname, e.Instance)
	}
	return e.Text
}

func simDown() *cli.Command {
	return &cli.Command{
		Name: "down", Usage: "end the simulated rack, as a power cut does", ArgsUsage: " ",
		Description: "The machines are kept: the next start goes on with them, and those that were on start again.\n" +
			"A rack in the appliance's process ends as well; the appliance goes on without it.",
		UsageText: "bessemer sim down",
		Action: func(c *cli.Context) error {
			r, err := theRack(c)
			if err != nil {
				return err
			}
			if err := r.Down(c.Context); err != nil {
				return err
			}
			cfg, err := loadConfig(c)
			if err != nil {
				return err
			}
			return awaitDown(c.Context, filepath.Join(cfg.Path(rackDir), rackSocket))
		},
	}
}
