package firmware

import (
	"context"
	"errors"
	"flag"
	"net"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/pxe"
	"bessemer/pxe/dhcp"
	"bessemer/store"
)

var many = flag.Int("many", 0, "how many machines TestManyMachines boots")

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

// TestProxy has another server give addresses and the appliance say what to
// boot, on port 4011, as dnsmasq and the like arrange it: the other's answers
// have class PXEClient and no file.
func TestProxy(t *testing.T) {
	r := newRig(t, func(c *dhcp.Config) { c.Mode = dhcp.Proxy })
	other := newRig(t, func(c *dhcp.Config) { c.HasFile = func(string) bool { return false } })
	replies(func(req, d *dhcpv4.DHCPv4) {
		if !req.Options.Has(dhcpv4.GenericOptionCode(175)) {
			d.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
			return
		}
		setFile(d, pxe.ScriptURL(r.base, req.ClientHWAddr))
	})(t, other)
	c := r.config(t, bios)
	c.Wire = two{r, other}
	b, err := netboot(t, c)
	if err != nil || b.Action != Ramdisk || b.Files[0].URL != "tftp://127.0.0.1/undionly.kpxe" {
		t.Fatalf("%q, %v, %+v", b.Action, err, b.Files)
	}
	if mac, ok := r.dhcp.Owner(b.Lease.IP); !ok || mac.String() != testMAC {
		t.Errorf("the proxy takes %s for the owner of %s", mac, b.Lease.IP)
	}
}

// two is a network with two servers: packets to port 67 reach both.
type two struct {
	*rig
	other *rig
}

func (w two) DHCP(ctx context.Context, packet []byte, port int) ([]byte, error) {
	mine, err := w.rig.DHCP(ctx, packet, port)
	if port == portProxy {
		return mine, err
	}
	return w.other.DHCP(ctx, packet, port)
}

// TestManyMachines boots machines side by side, each with its own lease, and
// shows what one costs.
func TestManyMachines(t *testing.T) {
	n := 100
	if *many > 0 {
		n = *many
	}
	r := newRig(t, nil)
	macs := make([]net.HardwareAddr, n)
	err := r.db.Update(func(tx *store.Tx) error {
		for i := range macs {
			macs[i] = net.HardwareAddr{0x52, 0x54, 1, 0, byte(i >> 8), byte(i)}
			if err := store.Ports.Put(tx, &store.Port{UUID: macs[i].String(), NodeUUID: "n" + macs[i].String(), Address: macs[i].String(), PXEEnabled: true}); err != nil {
				return err
			}
			r.set(macs[i].String(), pxe.Ramdisk)
		}
		return nil
	})
	if err := errors.Join(err, r.dhcp.Refresh()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	peak := watchMemory(t)
	leases := make([]Lease, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := r.config(t, []string{bios, uefi}[i%2])
			c.MAC, c.Console, c.Seed, c.Pace, c.floor = macs[i], nil, uint64(i), 0.05, 0
			b, err := NetBoot(t.Context(), c)
			if err != nil || b.Action != Ramdisk {
				t.Errorf("machine %d: %q, %v", i, b.Action, err)
			}
			leases[i] = b.Lease
		})
	}
	wg.Wait()
	t.Logf("%d machines in %s, %d KiB of heap each at the most", n, time.Since(start).Round(time.Millisecond), peak()/1024/int64(n))
	seen := map[string]bool{}
	for _, l := range leases {
		seen[l.IP.String()] = true
	}
	if len(seen) != n {
		t.Errorf("%d addresses for %d machines", len(seen), n)
	}
}

// watchMemory returns how much the heap has grown at the most.
func watchMemory(t *testing.T) func() int64 {
	heap := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	base, most := heap(), int64(0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			most = max(most, heap()-base)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int64 { cancel(); <-done; return most }
}
