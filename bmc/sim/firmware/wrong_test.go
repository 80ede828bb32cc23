package firmware

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	pintftp "github.com/pin/tftp/v3"

	"bessemer/bmc/sim/flaw"
	"bessemer/pxe"
)

// A wrong is a server that is not right for machines with a quirk.
type wrong struct {
	id    flaw.ID
	name  string
	mode  string
	http  bool
	local bool
	spoil func(t *testing.T, r *rig)
}

// wrongs are servers that do not do the right thing for a quirk: with its flag
// on, the machine must not boot as it should, and without, it must. So the
// flags are felt, and TestQuirks fails where the right thing is undone.
var wrongs = []wrong{
	{id: "D-01", name: "no program for EBC", mode: uefi, spoil: replies(func(req, d *dhcpv4.DHCPv4) {
		if bytes.Equal(req.Options.Get(dhcpv4.OptionClientSystemArchitectureType), []byte{0, 9}) {
			d.DeleteOption(dhcpv4.OptionBootfileName)
			d.BootFileName = ""
		}
	})},
	{id: "D-03", name: "no class", mode: uefi, http: true, spoil: replies(func(_, d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionClassIdentifier) })},
	{id: "D-04", name: "class of a proxy", mode: uefi, spoil: replies(func(req, d *dhcpv4.DHCPv4) {
		if !req.Options.Has(dhcpv4.GenericOptionCode(175)) {
			d.UpdateOption(dhcpv4.OptClassIdentifier("PXEClient"))
		}
	})},
	{id: "D-05", name: "iPXE told by its architecture", mode: bios, spoil: func(t *testing.T, r *rig) {
		said := false
		replies(func(req, d *dhcpv4.DHCPv4) {
			if req.MessageType() == dhcpv4.MessageTypeDiscover {
				said = req.Options.Has(dhcpv4.OptionClientSystemArchitectureType)
			}
			if req.Options.Has(dhcpv4.GenericOptionCode(175)) && !said {
				setFile(d, pxe.NBPBIOS)
			}
		})(t, r)
	}},
	{id: "D-06", name: "another file for every name", mode: uefi, spoil: func(_ *testing.T, r *rig) { r.files["autoexec.ipxe"] = []byte("<html>not here</html>") }},
	{id: "D-07", name: "one try", mode: uefi, spoil: program1("iseq ${try} 10", "iseq ${try}  1")},
	{id: "D-08", name: "one try", mode: uefi, spoil: program1("iseq ${loads} 8", "iseq ${loads} 1")},
	{id: "D-09", name: "BOOTIF of net0", mode: uefi, spoil: scripts("BOOTIF=01-52-54-00-00-00-01", "BOOTIF=01-${net0/mac:hexhyp}")},
	{id: "D-10", name: "ip=", mode: bios, spoil: scripts("BOOTIF=", "ip=dhcp BOOTIF=")},
	{id: "D-12", name: "inc", mode: bios, spoil: scripts("set try 0\n", "inc try 0\n")},
	{id: "D-13", name: "option 66 alone", mode: uefi, spoil: replies(func(_, d *dhcpv4.DHCPv4) { d.ServerIPAddr = net.IPv4zero })},
	{id: "D-14", name: "answers from another address", mode: bios, spoil: func(t *testing.T, r *rig) { r.between(t, &middle{from: "127.0.0.2"}) }},
	{id: "D-15", name: "blocks as large as asked", mode: bios, spoil: func(t *testing.T, r *rig) { r.between(t, &middle{server: largeBlocks(t, r)}) }},
	{id: "D-16", name: "an option more", mode: uefi, spoil: func(t *testing.T, r *rig) {
		r.between(t, &middle{down: func(p []byte) []byte {
			if p[1] == opOACK {
				p = append(p, "timeout\x005\x00"...)
			}
			return p
		}})
	}},
	{id: "D-17", name: "mute after an acknowledged error", mode: bios, spoil: func(t *testing.T, r *rig) {
		var erred, dead atomic.Bool
		r.between(t, &middle{
			up: func(p []byte) bool {
				dead.Store(dead.Load() || erred.Load() && p[1] == opACK)
				return !dead.Load()
			},
			down: func(p []byte) []byte { erred.Store(p[1] == opERROR); return p },
		})
	}},
	{id: "D-18", name: "refuses unknown options", mode: bios, spoil: func(t *testing.T, r *rig) {
		r.between(t, &middle{up: func(p []byte) bool { return !bytes.Contains(p, []byte("BLKSIZE")) }})
	}},
	{id: "D-19", name: "no Content-Length", mode: uefi, http: true, spoil: func(_ *testing.T, r *rig) {
		r.wrap(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, req)
				w.WriteHeader(rec.Code)
				w.(http.Flusher).Flush() // so the length is not known
				_, _ = w.Write(rec.Body.Bytes())
			})
		})
	}},
	{id: "D-20", name: "wants the END option", mode: bios, spoil: func(_ *testing.T, r *rig) {
		r.spoil = func(packet, reply []byte) []byte {
			if _, err := dhcpv4.FromBytes(packet); err != nil {
				return nil
			}
			return reply
		}
	}},
	{id: "D-24", name: "ends with success", mode: bios, local: true, spoil: scripts("--drive 0x80 ||\n", "--drive 0x80 || exit 0\n")},
	{id: "D-26", name: "option 82 left out", mode: bios, spoil: replies(func(_, d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionRelayAgentInformation) })},
	{id: "D-29", name: "refuses what was asked of another", mode: bios, spoil: func(t *testing.T, r *rig) {
		r.spoil = func(packet, reply []byte) []byte {
			req, err := dhcpv4.FromBytes(packet)
			if err != nil || reply != nil || req.MessageType() != dhcpv4.MessageTypeRequest {
				return reply
			}
			nak, err := dhcpv4.NewReplyFromRequest(req, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak))
			if err != nil {
				t.Error(err)
			}
			return nak.ToBytes()
		}
	}},
	{id: "D-30", name: "nomodeset", mode: bios, spoil: scripts("BOOTIF=", "nomodeset BOOTIF=")},
}

func setFile(d *dhcpv4.DHCPv4, name string) {
	d.BootFileName = name
	d.UpdateOption(dhcpv4.OptBootFileName(name))
}

// replies changes DHCP replies.
func replies(change func(req, d *dhcpv4.DHCPv4)) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		r.spoil = func(packet, reply []byte) []byte {
			req, err := dhcpv4.FromBytes(packet)
			if err != nil || reply == nil {
				return reply
			}
			d, err := dhcpv4.FromBytes(reply)
			if err != nil {
				t.Error(err)
				return reply
			}
			change(req, d)
			return d.ToBytes()
		}
	}
}

// scripts changes the scripts that are served.
func scripts(from, to string) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		r.wrap(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if !strings.HasPrefix(req.URL.Path, pxe.PathScript) {
					next.ServeHTTP(w, req)
					return
				}
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, req)
				if !strings.Contains(rec.Body.String(), from) {
					t.Errorf("script has no %q:\n%s", from, rec.Body)
				}
				_, _ = w.Write([]byte(strings.ReplaceAll(rec.Body.String(), from, to)))
			})
		})
	}
}

// program1 changes the script inside of the UEFI program.
func program1(from, to string) func(*testing.T, *rig) {
	return func(t *testing.T, r *rig) {
		content := r.files[pxe.NBPX64]
		if len(from) != len(to) || !bytes.Contains(content, []byte(from)) {
			t.Fatalf("program has no %q", from)
		}
		r.files[pxe.NBPX64] = bytes.ReplaceAll(content, []byte(from), []byte(to))
	}
}

// largeBlocks is a TFTP server without our limit.
func largeBlocks(t *testing.T, r *rig) netip.AddrPort {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := pintftp.NewServer(func(name string, rf io.ReaderFrom) error {
		_, err := rf.ReadFrom(bytes.NewReader(r.files[name]))
		return err
	}, nil)
	s.SetRetries(1)
	s.SetTimeout(200 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- s.Serve(conn) }()
	t.Cleanup(func() { s.Shutdown(); <-done })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestWrongServersAreFelt(t *testing.T) {
	for _, w := range wrongs {
		for _, on := range []bool{false, true} {
			t.Run(string(w.id)+"/"+w.name+map[bool]string{true: "/on", false: "/off"}[on], func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil)
				w.spoil(t, r)
				want := Ramdisk
				if w.local {
					r.set(testMAC, pxe.Local)
					want = Disk
				}
				c := r.config(t, w.mode)
				c.HTTPBoot = w.http
				if on {
					c.Flaws.Turn(true, w.id)
				}
				b, err := netboot(t, c)
				good := err == nil && b.Action == want
				if w.id == "D-09" && good {
					good = slices.Contains(b.Args, "BOOTIF=01-52-54-00-00-00-01")
				}
				if good == on {
					t.Errorf("flag %v, booted well %v: %q, %v", on, good, b.Action, err)
				}
			})
		}
	}
}

// TestEachFlagHasAWrong holds the table above to the flags.
func TestEachFlagHasAWrong(t *testing.T) {
	for _, q := range quirks {
		if !slices.ContainsFunc(wrongs, func(w wrong) bool { return w.id == q.id }) {
			t.Errorf("%s has no wrong server", q.id)
		}
	}
}
