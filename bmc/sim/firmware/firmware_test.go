package firmware

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/pxe"
)

// TestNetBoot boots every kind of machine into the ramdisk.
func TestNetBoot(t *testing.T) {
	for _, tt := range []struct {
		name    string
		mode    string
		change  func(*Config)
		program string
	}{
		{"BIOS PXE", bios, func(*Config) {}, "tftp://127.0.0.1/undionly.kpxe"},
		{"UEFI PXE", uefi, func(*Config) {}, "tftp://127.0.0.1/ipxe.efi"},
		{"UEFI HTTP", uefi, func(c *Config) { c.HTTPBoot = true }, "/boot/nbp/ipxe.efi"},
		{"iPXE in ROM, BIOS", bios, func(c *Config) { c.ROMIsIPXE = true }, ""},
		{"iPXE in ROM, UEFI", uefi, func(c *Config) { c.ROMIsIPXE = true }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			c := r.config(t, tt.mode)
			tt.change(&c)
			b, err := netboot(t, c)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"initrd=initrd", "ipa-api-url=" + r.base, "BOOTIF=01-52-54-00-00-00-01", "ipa-agent-token=t"}
			if diff := cmp.Diff(want, b.Args); diff != "" || b.Action != Ramdisk {
				t.Errorf("%s, arguments (-want +got):\n%s", b.Action, diff)
			}
			checkFiles(t, r, b, tt.program)
			checkLease(t, r, b.Lease)
		})
	}
}

// checkFiles looks at what came, and that all of it was asked for from the
// leased address.
func checkFiles(t *testing.T, r *rig, b Boot, program string) {
	t.Helper()
	var names []string
	for _, f := range b.Files {
		names = append(names, f.Name)
	}
	if last := names[len(names)-2:]; !slices.Equal(last, []string{"kernel", "initrd"}) {
		t.Errorf("fetched %q", names)
	}
	if !strings.HasSuffix(b.Files[0].URL, program) {
		t.Errorf("the first file is %s, want %s", b.Files[0].URL, program)
	}
	if k, i := b.Files[len(b.Files)-2], b.Files[len(b.Files)-1]; k.SHA256 != r.sums[0] || i.SHA256 != r.sums[1] || i.Size != 630000 {
		t.Errorf("got %+v and %+v", k, i)
	}
	for _, p := range r.paths {
		if !strings.HasSuffix(p, " from "+b.Lease.IP.String()) {
			t.Errorf("%s, want from %s", p, b.Lease.IP)
		}
	}
}

func checkLease(t *testing.T, r *rig, l Lease) {
	t.Helper()
	mac, ok := r.dhcp.Owner(l.IP)
	if !ok || mac.String() != testMAC || l.Server.String() != "127.0.0.1" || l.Prefix.String() != "127.64.0.0/16" || l.For <= 0 {
		t.Errorf("lease %+v, whose owner is %s", l, mac)
	}
}

// TestBootAnswerFollowsState boots one machine three times while its node's
// state changes (D-23).
func TestBootAnswerFollowsState(t *testing.T) {
	for _, mode := range []string{bios, uefi} {
		r := newRig(t, nil)
		var got []Action
		for _, a := range []pxe.Action{pxe.Ramdisk, pxe.Local, pxe.Ramdisk} {
			r.set(testMAC, a)
			b, err := netboot(t, r.config(t, mode))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Action)
		}
		if !slices.Equal(got, []Action{Ramdisk, Disk, Ramdisk}) {
			t.Errorf("%s: booted %v", mode, got)
		}
	}
}
