package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"bessemer/bmc/sim/flaw"
)

// areas are what the letters of quirks stand for, in the catalogue's order.
var areas = []struct{ letter, name, title string }{
	{"B", "boot", "Boot device and power"},
	{"R", "redfish", "Redfish"},
	{"V", "media", "Virtual media"},
	{"I", "ipmi", "IPMI"},
	{"D", "netboot", "DHCP, PXE, TFTP and HTTP boot"},
	{"N", "inventory", "Network cards and inventory"},
	{"K", "disk", "Disks"},
	{"U", "efi", "UEFI boot entries"},
	{"A", "agent", "Agent and appliance"},
}

func simQuirks() *cli.Command {
	return &cli.Command{
		Name: "quirks", Usage: "list what real machines do wrong, and which of it simulated ones do by flag", ArgsUsage: " ",
		Description: "A quirk with status flag can be turned on for a simulated machine (sim quirk, sim up --quirk),\n" +
			"and tests do; tested: no flag is needed to see it, a test holds the right answer; later: it\n" +
			"concerns what Bessemer does not do yet. With + flag it can be turned on all the same.",
		UsageText: "bessemer sim quirks\nbessemer sim quirks --area redfish --status flag\nbessemer sim quirks -o json",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "area", Usage: "only this `AREA`: " + areaNames()},
			&cli.StringFlag{Name: "status", Usage: "only with this `STATUS`: flag, tested or later"},
			&cli.BoolFlag{Name: "markdown", Usage: "as the document QUIRKS.md"},
		},
		Action: func(c *cli.Context) error {
			rows, err := chosenQuirks(c.String("area"), c.String("status"))
			if err != nil {
				return err
			}
			if c.Bool("markdown") {
				return writeQuirks(c.App.Writer, rows)
			}
			return showQuirks(c, rows)
		},
	}
}

func areaNames() string {
	var names []string
	for _, a := range areas {
		names = append(names, a.name)
	}
	return strings.Join(names, ", ")
}

// chosenQuirks are the rows of an area and a status, "" for all.
func chosenQuirks(area, status string) (rows []flaw.Row, err error) {
	letter := ""
	for _, a := range areas {
		if a.name == area {
			letter = a.letter
		}
	}
	if area != "" && letter == "" {
		return nil, usagef("--area %s: it is one of %s", area, areaNames())
	}
	if status != "" && !slices.Contains([]flaw.Status{flaw.Flag, flaw.Tested, flaw.Later}, flaw.Status(status)) {
		return nil, usagef("--status %s: it is flag, tested or later", status)
	}
	for _, r := range flaw.Rows() {
		if strings.HasPrefix(string(r.ID), letter) && (status == "" || r.Status == flaw.Status(status)) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func showQuirks(c *cli.Context, rows []flaw.Row) error {
	list := []map[string]any{}
	for _, r := range rows {
		list = append(list, map[string]any{
			"id": string(r.ID), "status": string(r.Status), "flag": r.Flagged(), "who": r.Who, "does": r.Does, "want": r.Want, "note": r.Note,
		})
	}
	if done, err := printData(c, list); done {
		return err
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tKNOWN OF\tWHAT IT DOES")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.ID, statusText(r), clip(r.Who, 28), clip(r.Does, 84))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	say(c, "%s; what Bessemer does about each: -o yaml", tally(rows))
	return nil
}

// statusText is a row's status, and whether there is a flag without it.
func statusText(r flaw.Row) string {
	if r.Flagged() && r.Status != flaw.Flag {
		return string(r.Status) + " + flag"
	}
	return string(r.Status)
}

// tally says how many rows there are of each status.
func tally(rows []flaw.Row) string {
	n := map[flaw.Status]int{}
	for _, r := range rows {
		n[r.Status]++
	}
	return fmt.Sprintf("%s: %d with a flag, %d held by other tests, %d for later", count(len(rows), "quirk"), n[flaw.Flag], n[flaw.Tested], n[flaw.Later])
}

const quirksHead = `# Quirks

What real controllers, firmware, network cards and disks do wrong, and what Bessemer
does about it. A quirk with status **flag** is one that a simulated machine has when it
is told to, and tests turn it on:

    bessemer serve --sim 8 --quirk B-02,R-06       # all machines, from the start
    bessemer sim quirk sim-003 +B-02,-R-06         # one machine, now

- **tested**: no flag is needed to see it; a test holds the right answer.
- **later**: it concerns what Bessemer does not do yet.
- **+ flag**: a simulated machine has it all the same when it is told to.

This file is made from the program by ` + "`bessemer sim quirks --markdown`" + `.

`

// writeQuirks writes the catalogue as a document.
func writeQuirks(w io.Writer, rows []flaw.Row) error {
	var b strings.Builder
	b.WriteString(quirksHead + tally(rows) + ".\n")
	for _, a := range areas {
		of := slices.DeleteFunc(slices.Clone(rows), func(r flaw.Row) bool { return !strings.HasPrefix(string(r.ID), a.letter) })
		if len(of) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| | status | known of | what it does | the right answer |\n|---|---|---|---|---|\n", a.title)
		for _, r := range of {
			want := r.Want
			if r.Note != "" {
				want += " *(" + r.Note + ")*"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.ID, statusText(r), inTable(r.Who), inTable(r.Does), inTable(want))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func inTable(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s)
}

func simFaults() *cli.Command {
	return &cli.Command{
		Name: "faults", Usage: "list the faults that can be injected", ArgsUsage: " ",
		UsageText: "bessemer sim faults\nbessemer sim faults -o json",
		Action: func(c *cli.Context) error {
			list := []map[string]any{}
			for _, k := range flaw.Kinds() {
				list = append(list, map[string]any{"fault": string(k), "does": faultText[k].does, "counts": faultText[k].counts})
			}
			if done, err := printData(c, list); done {
				return err
			}
			w := tabwriter.NewWriter(c.App.Writer, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "FAULT\tWHAT IT DOES\tCOUNTS EACH")
			for _, k := range flaw.Kinds() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", k, faultText[k].does, faultText[k].counts)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			say(c, "%s", faultKeysText)
			return nil
		},
	}
}

// faultKeysText says what may stand behind a fault's colon.
const faultKeysText = "keys: after=N (so many pass first), count=N (then it is over), rate=0.3 (share that is hit), delay=2s, at=4M (byte);\n" +
	"for example bmc-500:after=2,count=3, packet-loss:rate=0.3, disk-error:at=512K, clock-jump:delay=-3h"

// faultText is what each fault does, and what its counters count.
var faultText = map[flaw.Kind]struct{ does, counts string }{
	flaw.BMCHang:      {"the controller takes requests and never answers", "request"},
	flaw.BMCDown:      {"the controller refuses connections, and answers no packet", "request"},
	flaw.BMC500:       {"the controller answers 500, by IPMI FFh", "request"},
	flaw.BMC503:       {"the controller answers 503, by IPMI node busy C0h", "request"},
	flaw.BMCSlow:      {"the controller answers after delay (2s)", "request"},
	flaw.BMCSessions:  {"the controller has no session left", "login"},
	flaw.BMCPassword:  {"the controller takes no password any more", "request"},
	flaw.PacketLoss:   {"the firmware's packets are lost, of DHCP and TFTP", "packet"},
	flaw.PacketDelay:  {"the firmware's packets come late by delay (1s)", "packet"},
	flaw.ImageStall:   {"the download of the image stands still behind byte at", "connection"},
	flaw.ImageCut:     {"the download of the image ends behind byte at", "connection"},
	flaw.ImageCorrupt: {"byte at of the image arrives changed", "connection"},
	flaw.KernelCut:    {"kernel or initramfs end early", "download"},
	flaw.AgentCrash:   {"the agent ends on the command it is given", "command"},
	flaw.DiskError:    {"writing byte at fails (EIO)", "write"},
	flaw.PowerLoss:    {"the machine loses power as byte at is written, and comes back", "write"},
	flaw.ClockJump:    {"the machine's clock is off by delay", "start"},
	flaw.NoPOST:       {"a start hangs before it boots anything", "start"},
}
