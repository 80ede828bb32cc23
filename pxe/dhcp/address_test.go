package dhcp

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"bessemer/store"
)

func TestRequestKinds(t *testing.T) {
	const other = "52:54:00:00:00:99"
	tests := []struct {
		name string
		mods func(mine, others string) []dhcpv4.Modifier
		want dhcpv4.MessageType // 0 for no answer
	}{
		{"selecting its offer", func(m, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested(m), server("10.9.0.1")} }, dhcpv4.MessageTypeAck},
		{"selecting another's address", func(_, o string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested(o), server("10.9.0.1")} }, dhcpv4.MessageTypeNak},
		{"selecting another server", func(m, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested(m), server("10.9.0.7")} }, 0},
		{"init-reboot with its lease", func(m, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested(m)} }, dhcpv4.MessageTypeAck},
		{"init-reboot on the wrong network", func(_, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested("192.168.1.5")} }, dhcpv4.MessageTypeNak},
		{"init-reboot with our own address", func(_, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{requested("10.9.0.1")} }, dhcpv4.MessageTypeNak},
		{"renewing", func(m, _ string) []dhcpv4.Modifier { return []dhcpv4.Modifier{has(m)} }, dhcpv4.MessageTypeAck},
		{"renewing another's address", func(_, o string) []dhcpv4.Modifier { return []dhcpv4.Modifier{has(o)} }, dhcpv4.MessageTypeNak},
		{"without any address", func(_, _ string) []dhcpv4.Modifier { return nil }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, testConfig())
			mine, others := b.take(t, enrolledMAC), b.take(t, other)
			resp := b.ask(t, message(t, dhcpv4.MessageTypeRequest, enrolledMAC, tt.mods(mine.String(), others.String())...))
			switch {
			case tt.want == 0 && resp != nil:
				t.Errorf("got %s, want no answer", resp.MessageType())
			case tt.want != 0 && (resp == nil || resp.MessageType() != tt.want):
				t.Errorf("got %v, want %s", resp, tt.want)
			case tt.want == dhcpv4.MessageTypeNak && (!resp.IsBroadcast() || addr(resp.YourIPAddr).IsValid() || resp.BootFileName != ""):
				t.Errorf("NAK carries more than it may: %s", resp.Summary())
			}
			if l, ok := b.table.find(mine, time.Now()); !ok || l.key != enrolledMAC {
				t.Errorf("the client's lease of %s was lost", mine)
			}
		})
	}
}

func TestNoAddressTwice(t *testing.T) {
	b := newBench(t, testConfig())
	given := map[netip.Addr]string{}
	enroll := func(i int) string {
		mac := fmt.Sprintf("52:54:01:00:00:%02x", i)
		putPort(t, b.db, mac, true)
		return mac
	}
	for i := range 16 { // all of the enrolled part: 100 to 115
		mac := enroll(i)
		ip := b.take(t, mac)
		if prev := given[ip]; prev != "" {
			t.Fatalf("%s went to %s and %s", ip, prev, mac)
		}
		given[ip] = mac
		if !b.table.known.contains(ip) {
			t.Errorf("%s is outside of the part for enrolled ports", ip)
		}
	}
	if resp := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, enroll(16))); resp != nil {
		t.Errorf("got %s from an empty range", resp.YourIPAddr)
	}
	for ip, mac := range given {
		if again := b.take(t, mac); again != ip {
			t.Errorf("%s had %s and then got %s", mac, ip, again)
		}
	}
}

func TestUnknownMachinesCannotStarveNodes(t *testing.T) {
	b := newBench(t, testConfig())
	answered := 0
	for i := range 10000 {
		mac := fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&0xff)
		if b.ask(t, message(t, dhcpv4.MessageTypeDiscover, mac)) != nil {
			answered++
		}
	}
	if answered != 4 {
		t.Errorf("%d forged machines got an offer, want the 4 of their part", answered)
	}
	if ip := b.take(t, enrolledMAC); !b.table.known.contains(ip) {
		t.Errorf("node got %s, outside of its part", ip)
	}
}

func TestPoolHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, testConfig())
		unknown := func(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i) }
		for i := range 4 {
			b.ask(t, message(t, dhcpv4.MessageTypeDiscover, unknown(i)))
		}
		late := message(t, dhcpv4.MessageTypeDiscover, unknown(9))
		if b.ask(t, late) != nil {
			t.Fatal("an offer from a full pool")
		}
		time.Sleep(offerTime + time.Second)
		if b.ask(t, late) == nil {
			t.Error("offers that nobody took are not free after 31 s")
		}
		for i := range 3 {
			b.take(t, unknown(i))
		}
		time.Sleep(b.table.unknownTime - time.Second)
		if b.ask(t, message(t, dhcpv4.MessageTypeDiscover, unknown(10))) == nil {
			t.Error("the offer of a machine that went away is not free")
		}
		if b.ask(t, message(t, dhcpv4.MessageTypeDiscover, unknown(11))) != nil {
			t.Error("a lease was given away before its end")
		}
		time.Sleep(2 * time.Second)
		if b.ask(t, message(t, dhcpv4.MessageTypeDiscover, unknown(11))) == nil {
			t.Error("ended leases are not free")
		}
	})
}

func TestEnrolledPortKeepsItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, testConfig())
		ip := b.take(t, enrolledMAC)
		time.Sleep(30 * 24 * time.Hour)
		b.tidy()
		putPort(t, b.db, "52:54:00:00:00:03", true)
		want := requested(ip.String())
		if got := b.take(t, "52:54:00:00:00:03", want); got == ip {
			t.Errorf("%s was given away on request a month after its lease ended", ip)
		}
		if got := b.take(t, enrolledMAC); got != ip {
			t.Errorf("node had %s, got %s", ip, got)
		}
	})
}

func TestDecline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, testConfig())
		ip := b.take(t, enrolledMAC)
		decline := func(mac string) {
			if resp := b.ask(t, message(t, dhcpv4.MessageTypeDecline, mac, requested(ip.String()), server("10.9.0.1"))); resp != nil {
				t.Errorf("DECLINE was answered with %s", resp.MessageType())
			}
		}
		decline("52:54:00:00:00:77") // not the holder
		if _, ok := b.table.find(ip, time.Now()); !ok {
			t.Fatal("a stranger's DECLINE took a node's address")
		}
		decline(enrolledMAC)
		if got := b.take(t, enrolledMAC); got == ip {
			t.Errorf("%s was given again right after DECLINE", ip)
		}
		if l, ok := b.table.get(ip); !ok || l.state != declined {
			t.Errorf("%s is not in quarantine: %+v", ip, l)
		}
		time.Sleep(quarantine + time.Second)
		b.tidy()
		if _, ok := b.table.get(ip); ok {
			t.Errorf("%s is in quarantine for ever", ip)
		}
	})
}

func TestDeclineCannotEmptyThePool(t *testing.T) {
	b := newBench(t, testConfig())
	for i := range 40 {
		mac := fmt.Sprintf("02:00:00:00:01:%02x", i)
		offer := b.ask(t, message(t, dhcpv4.MessageTypeDiscover, mac))
		if offer == nil {
			t.Fatalf("no address after %d declines", i)
		}
		b.ask(t, message(t, dhcpv4.MessageTypeDecline, mac, requested(offer.YourIPAddr.String()), server("10.9.0.1")))
	}
}

func TestRelease(t *testing.T) {
	b := newBench(t, testConfig())
	ip := b.take(t, "02:00:00:00:00:01")
	b.ask(t, message(t, dhcpv4.MessageTypeRelease, "02:00:00:00:00:02", has(ip.String()), server("10.9.0.1")))
	if _, ok := b.table.find(ip, time.Now()); !ok {
		t.Fatal("a stranger's RELEASE ended a lease")
	}
	b.ask(t, message(t, dhcpv4.MessageTypeRelease, "02:00:00:00:00:01", has(ip.String()), server("10.9.0.1")))
	if _, ok := b.table.find(ip, time.Now()); ok {
		t.Error("RELEASE by the holder did not end the lease")
	}
	if got := b.take(t, "02:00:00:00:00:01"); got != ip {
		t.Errorf("got %s, want the same address %s while nobody needs it", got, ip)
	}
}

// write writes what is queued, as Run does.
func (b *bench) flush() {
	for batch := b.gather(nil); len(batch) > 0; batch = b.gather(nil) {
		b.write(batch)
	}
}

func TestLeasesSurviveRestart(t *testing.T) {
	b := newBench(t, testConfig())
	const unknown = "02:00:00:00:00:01"
	want := map[string]netip.Addr{}
	for _, mac := range []string{enrolledMAC, unknown} {
		want[mac] = b.take(t, mac)
		b.saveIP(want[mac], nil)
	}
	b.flush()
	again := newBenchOn(t, testConfig(), b.db)
	for mac, ip := range want {
		l, ok := again.table.find(ip, time.Now())
		if !ok || l.key != mac || l.enrolled != (mac == enrolledMAC) {
			t.Errorf("%s of %s after a restart: %+v %v", ip, mac, l, ok)
		}
		if got, ok := again.Owner(ip); !ok || got.String() != mac {
			t.Errorf("owner of %s is %s after a restart", ip, got)
		}
	}
	offer := again.ask(t, message(t, dhcpv4.MessageTypeDiscover, "02:00:00:00:00:02", requested(want[unknown].String())))
	if addr(offer.YourIPAddr) == want[unknown] {
		t.Error("an address was given twice across a restart")
	}
}

func TestSweptLeasesLeaveTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, testConfig())
		ip := b.take(t, "02:00:00:00:00:01")
		b.saveIP(ip, nil)
		b.flush()
		time.Sleep(keepEnded + b.table.unknownTime + time.Minute)
		b.tidy()
		// Taken again before the writer came to it: the new record must stay.
		if got := b.take(t, "02:00:00:00:00:01"); got != ip {
			t.Fatalf("got %s, want %s", got, ip)
		}
		b.flush()
		err := b.db.View(func(tx *store.Tx) error {
			_, err := store.Leases.Get(tx, ip.String())
			return err
		})
		if err != nil {
			t.Errorf("lease taken between sweep and write: %v", err)
		}
		time.Sleep(keepEnded + b.table.unknownTime + time.Minute)
		b.tidy()
		b.flush()
		err = b.db.View(func(tx *store.Tx) error {
			for l, err := range store.Leases.All(tx) {
				return fmt.Errorf("still there: %+v %w", l, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestInfiniBandIsKnownByItsClientID(t *testing.T) {
	b := newBench(t, testConfig())
	ib := func(mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		m := message(t, dhcpv4.MessageTypeDiscover, enrolledMAC, mods...)
		m.HWType, m.ClientHWAddr = 32, nil
		return m
	}
	if resp := b.ask(t, ib()); resp != nil {
		t.Errorf("got %s for a client without any identity", resp.YourIPAddr)
	}
	one, two := b.ask(t, ib(raw(61, "\xff\x00\x00\x00\x01abcdefgh"))), b.ask(t, ib(raw(61, "\xff\x00\x00\x00\x02abcdefgh")))
	if one == nil || two == nil || one.YourIPAddr.Equal(two.YourIPAddr) {
		t.Errorf("got %v and %v, want two addresses", one, two)
	}
}

func TestExchangesOfNodesAreRecorded(t *testing.T) {
	b := newBench(t, testConfig())
	req := message(t, dhcpv4.MessageTypeRequest, enrolledMAC, raw(60, "PXEClient:Arch:00000:UNDI:002001"), raw(93, "\x00\x00"),
		requested(b.take(t, enrolledMAC).String()), server("10.9.0.1"))
	resp, x := b.answer(t.Context(), req, portServer)
	b.recordReply(x, resp, nil)
	ms := b.rec.Messages()
	if len(ms) < 2 {
		t.Fatalf("recorded %d messages", len(ms))
	}
	ask, reply := ms[len(ms)-2], ms[len(ms)-1]
	if ask.Label != "DHCP request" || ask.From != store.NodeP || ask.To != store.DHCP || ask.Node != nodeUUID || ask.Run != 7 || ask.Wire.Method != "REQUEST" {
		t.Errorf("request recorded as %+v", ask)
	}
	if reply.Label != "next-server = Conductor" || reply.ReplyTo != ask.Seq || reply.Run != 7 || reply.Detail["boot_file"] != "undionly.kpxe" {
		t.Errorf("reply recorded as %+v", reply)
	}
	n := len(ms)
	b.take(t, "02:00:00:00:00:01")
	if len(b.rec.Messages()) != n {
		t.Error("an unknown machine was recorded")
	}
}
