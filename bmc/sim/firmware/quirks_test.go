package firmware

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bessemer/bmc/sim/flaw"
	"bessemer/pxe"
)

// quirks are the flags of network boot: each boots a machine with the flag on
// against the real servers, and looks at what shows that the flag was felt.
var quirks = []struct {
	id    flaw.ID
	modes []string
	local bool // boots its disk, not the ramdisk
	look  func(r *rig, b Boot) error
}{
	{id: "D-01", modes: []string{uefi}, look: func(r *rig, b Boot) error {
		return said(r, func(m pxe.Machine) bool { return m.Arch == pxe.EBC }, "architecture 9")
	}},
	{id: "D-03", modes: []string{uefi}, look: func(r *rig, b Boot) error {
		return said(r, func(m pxe.Machine) bool { return m.Arch == pxe.X64HTTP }, "architecture 16")
	}},
	{id: "D-04"},
	{id: "D-05"},
	{id: "D-06"},
	{id: "D-07"},
	{id: "D-08"},
	{id: "D-09", look: func(_ *rig, b Boot) error {
		if !slices.Contains(b.Args, "BOOTIF=01-52-54-00-00-00-01") {
			return fmt.Errorf("arguments %q name another card", b.Args)
		}
		return nil
	}},
	{id: "D-10"},
	{id: "D-12", look: func(r *rig, b Boot) error {
		if b.Files[0].Name != "boot script" {
			return fmt.Errorf("the old iPXE fetched %s first", b.Files[0].URL)
		}
		return nil
	}},
	{id: "D-13"},
	{id: "D-14"},
	{id: "D-15"},
	{id: "D-16"},
	{id: "D-17"},
	{id: "D-18"},
	{id: "D-19", modes: []string{uefi}, look: func(r *rig, b Boot) error {
		if !slices.ContainsFunc(r.paths, func(p string) bool { return strings.HasPrefix(p, "HEAD /boot/nbp/") }) {
			return fmt.Errorf("no HEAD among %q", r.paths)
		}
		return nil
	}},
	{id: "D-20"},
	{id: "D-24", local: true},
	{id: "D-26"},
	{id: "D-29", look: func(r *rig, _ Boot) error {
		if !strings.Contains(r.log.String(), "another DHCP server, 127.64.0.2") {
			return fmt.Errorf("no warning of the other server in %q", r.log)
		}
		return nil
	}},
	{id: "D-30"},
}

func said(r *rig, is func(pxe.Machine) bool, what string) error {
	if !slices.ContainsFunc(r.asked, is) {
		return fmt.Errorf("nobody said %s", what)
	}
	return nil
}

// TestQuirks turns each flag on.
func TestQuirks(t *testing.T) {
	for _, q := range quirks {
		if q.modes == nil {
			q.modes = []string{bios, uefi}
		}
		for _, mode := range q.modes {
			t.Run(string(q.id)+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil)
				want := Ramdisk
				if q.local {
					r.set(testMAC, pxe.Local)
					want = Disk
				}
				b, err := netboot(t, r.config(t, mode, q.id))
				if err != nil || b.Action != want {
					t.Fatalf("%q, %v; want %s", b.Action, err, want)
				}
				if q.look != nil {
					if err := q.look(r, b); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestQuirksOfOthers turns each flag on at the other kinds of machine, which
// must boot all the same.
func TestQuirksOfOthers(t *testing.T) {
	for _, kind := range []struct {
		name, mode string
		change     func(*Config)
	}{
		{"HTTP boot", uefi, func(c *Config) { c.HTTPBoot = true }},
		{"iPXE in ROM, BIOS", bios, func(c *Config) { c.ROMIsIPXE = true }},
		{"iPXE in ROM, UEFI", uefi, func(c *Config) { c.ROMIsIPXE = true }},
	} {
		for _, q := range quirks {
			t.Run(kind.name+"/"+string(q.id), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil)
				for want, does := range map[Action]pxe.Action{Ramdisk: pxe.Ramdisk, Disk: pxe.Local} {
					r.set(testMAC, does)
					c := r.config(t, kind.mode, q.id)
					kind.change(&c)
					if b, err := netboot(t, c); err != nil || b.Action != want {
						t.Errorf("%q, %v; want %s", b.Action, err, want)
					}
				}
			})
		}
	}
}

// TestFlagsHaveRows holds the table above to the catalogue.
func TestFlagsHaveRows(t *testing.T) {
	var tested, rows []flaw.ID
	for _, q := range quirks {
		tested = append(tested, q.id)
	}
	for _, row := range flaw.Rows() {
		if strings.HasPrefix(string(row.ID), "D-") && row.Status == flaw.Flag {
			rows = append(rows, row.ID)
		}
	}
	if !slices.Equal(tested, rows) {
		t.Errorf("flags tested %v, in the catalogue %v", tested, rows)
	}
}

// TestAllAtOnce turns on every flag that does not contradict another.
func TestAllAtOnce(t *testing.T) {
	r := newRig(t, nil)
	all := []flaw.ID{"D-01", "D-04", "D-05", "D-06", "D-07", "D-08", "D-09", "D-10", "D-14", "D-15", "D-16", "D-17", "D-18", "D-20", "D-24", "D-26", "D-29", "D-30"}
	for _, mode := range []string{bios, uefi} {
		if b, err := netboot(t, r.config(t, mode, all...)); err != nil || b.Action != Ramdisk {
			t.Errorf("%s: %q, %v", mode, b.Action, err)
		}
	}
}
