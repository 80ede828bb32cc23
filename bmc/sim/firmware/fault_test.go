package firmware

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc/sim/flaw"
	"bessemer/pxe"
)

// TestFaults injects what a machine must get over by itself.
func TestFaults(t *testing.T) {
	for _, text := range []string{
		"packet-loss:count=3", "packet-loss:after=4,count=2", "packet-loss:rate=0.03",
		"packet-delay:delay=1s,count=20", "packet-delay:count=3",
		"kernel-cut:count=1", "kernel-cut:after=1,count=1", "kernel-cut:count=1,at=100",
	} {
		for _, mode := range []string{bios, uefi} {
			if mode == uefi && strings.Contains(text, "rate") {
				continue // a megabyte, and each lost block costs the server a second
			}
			t.Run(text+"/"+mode, func(t *testing.T) {
				t.Parallel()
				f, err := flaw.ParseFault(text)
				if err != nil {
					t.Fatal(err)
				}
				r := newRig(t, nil)
				c := r.config(t, mode)
				c.Flaws.Inject(f)
				b, err := netboot(t, c)
				if err != nil || b.Action != Ramdisk {
					t.Fatalf("%q, %v", b.Action, err)
				}
				if c.Flaws.Hits(f.Kind) == 0 {
					t.Error("the fault never hit")
				}
			})
		}
	}
}

// TestNoRamdisk has a server without ramdisk: seven tries, then a reboot (D-11).
func TestNoRamdisk(t *testing.T) {
	r := newRig(t, nil)
	r.wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == pxe.PathKernel {
				http.Error(w, "none", http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
	b, err := netboot(t, r.config(t, uefi))
	tries := 0
	for _, p := range r.paths {
		if strings.Contains(p, pxe.PathKernel) {
			tries++
		}
	}
	if err != nil || b.Action != Reboot || tries != 7 {
		t.Errorf("%q, %v after %d tries, want a reboot after 7", b.Action, err, tries)
	}
}

// TestEnds are the ways in which network boot ends otherwise.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mode  string
		spoil func(t *testing.T, r *rig, c *Config)
		want  Action
		err   string
		stuck bool
	}{
		{"unknown machine", bios, func(_ *testing.T, r *rig, c *Config) { c.MAC[5] = 9 }, Disk, "", false},
		{"ARM machine, ramdisk for x86", uefi, func(_ *testing.T, _ *rig, c *Config) { c.ARM64 = true }, Disk, "", false},
		{"ARM machine by HTTP", uefi, func(_ *testing.T, _ *rig, c *Config) { c.ARM64, c.HTTPBoot = true, true }, Disk, "", false},
		{"damaged kernel", bios, func(_ *testing.T, r *rig, _ *Config) { r.sums[0] = "00" }, "", "the kernel is not the one", true},
		{"damaged initramfs", uefi, func(_ *testing.T, r *rig, _ *Config) { r.sums[1] = "00" }, "", "the initramfs is not the one", true},
		{"no TFTP server", bios, func(_ *testing.T, r *rig, _ *Config) { r.noTFTP = true }, "", "no TFTP server", false},
		{"BIOS gets a UEFI program", bios, func(_ *testing.T, r *rig, _ *Config) { r.files[pxe.NBPBIOS] = r.files[pxe.NBPX64] }, "", "a BIOS takes", false},
		{"UEFI gets an ARM program", uefi, func(_ *testing.T, r *rig, _ *Config) { r.files[pxe.NBPX64] = r.files[pxe.NBPARM64] }, "", "machine 0xaa64", false},
		{"UEFI gets text", uefi, func(_ *testing.T, r *rig, _ *Config) { r.files[pxe.NBPX64] = []byte("<html>") }, "", "not a PE file", false},
		{"no server", uefi, func(_ *testing.T, r *rig, _ *Config) { r.spoil = func(_, _ []byte) []byte { return nil } }, "", "no DHCP offer came", false},
		{"garbage for replies", uefi, func(_ *testing.T, r *rig, _ *Config) { r.spoil = func(_, _ []byte) []byte { return make([]byte, 300) } }, "", "no DHCP offer came", false},
		{"exit 0 on UEFI", uefi, func(t *testing.T, r *rig, _ *Config) { endless(t, r, "#!ipxe\nexit 0\n"); embeddedEnds(t, r) }, "", "shows its menu", true},
		{"prompt", bios, func(t *testing.T, r *rig, _ *Config) { endless(t, r, "#!ipxe\nshell\n") }, "", "at a prompt", true},
		{"power off", uefi, func(t *testing.T, r *rig, _ *Config) { endless(t, r, "#!ipxe\npoweroff\n") }, Off, "", false},
		{"endless script", uefi, func(t *testing.T, r *rig, _ *Config) { endless(t, r, "#!ipxe\n:a\ngoto a\n") }, "", "does not come to an end", false},
		{"script loads itself", uefi, func(t *testing.T, r *rig, _ *Config) {
			endless(t, r, "#!ipxe\nchain http://"+strings.TrimPrefix(r.base, "http://")+pxe.PathScript+testMAC+"\n")
		}, "", "does not come to an end", false},
		{"script leads outside", uefi, func(t *testing.T, r *rig, _ *Config) { endless(t, r, "#!ipxe\nkernel http://192.0.2.1/kernel\n") }, "", "no address of the simulated network", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			c := r.config(t, tt.mode)
			tt.spoil(t, r, &c)
			b, err := netboot(t, c)
			if b.Action != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || errors.Is(err, ErrStuck) != tt.stuck {
				t.Errorf("%q, %v; want %q, %q, stuck %v", b.Action, err, tt.want, tt.err, tt.stuck)
			}
		})
	}
}

// endless serves one text as every boot script.
func endless(_ *testing.T, r *rig, text string) {
	r.wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(req.URL.Path, pxe.PathScript) {
				_, _ = w.Write([]byte(text))
				return
			}
			next.ServeHTTP(w, req)
		})
	})
}

// embeddedEnds lets the UEFI program's script end as the served one does.
func embeddedEnds(t *testing.T, r *rig) {
	program1("chain --autofree bootscript ||\nexit 1", "chain --autofree bootscript   \nexit  ")(t, r)
}

// TestCancel ends a boot in the middle of its waits.
func TestCancel(t *testing.T) {
	r := newRig(t, nil)
	r.spoil = func(_, _ []byte) []byte { return nil }
	c := r.config(t, uefi)
	c.Pace = 1
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if b, err := NetBoot(ctx, c); !errors.Is(err, context.DeadlineExceeded) || b.Action != "" {
		t.Errorf("%q, %v", b.Action, err)
	}
}

// TestSameSeed boots twice with the same seed: the same packets.
func TestSameSeed(t *testing.T) {
	boot := func(seed uint64) (xids []string) {
		r := newRig(t, nil)
		r.spoil = func(packet, reply []byte) []byte {
			xids = append(xids, string(packet[4:8]))
			return reply
		}
		c := r.config(t, uefi, "D-07")
		c.Flaws, c.Seed = flaw.NewSet(seed), seed
		if _, err := netboot(t, c); err != nil {
			t.Fatal(err)
		}
		return xids
	}
	if a, b, c := boot(3), boot(3), boot(4); !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("transaction ids %q, %q, and of another seed %q", a, b, c)
	}
}

func TestConfigFaults(t *testing.T) {
	r := newRig(t, nil)
	for name, spoil := range map[string]func(*Config){
		"no wire":        func(c *Config) { c.Wire = nil },
		"MAC of 8 bytes": func(c *Config) { c.MAC = make([]byte, 8) },
		"no mode":        func(c *Config) { c.Mode = "" },
		"negative pace":  func(c *Config) { c.Pace = -1 },
	} {
		c := r.config(t, uefi)
		spoil(&c)
		if _, err := NetBoot(t.Context(), c); err == nil {
			t.Errorf("%s: booted", name)
		}
	}
}
