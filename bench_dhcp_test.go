//go:build linux

package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bessemer/bmc/sim/lab"
)

// benchDHCP measures both servers by perfdhcp, which acts as a relay for many
// machines, those that are enrolled with us.
func benchDHCP(t *testing.T, b *bench, r *benchRack) {
	tool, missing := program("perfdhcp", "kea-admin")
	if missing != "" {
		b.add(row{Subject: "DHCP", How: missing})
		return
	}
	macs := filepath.Join(r.clients.Dir, "macs")
	if err := os.WriteFile(macs, []byte(strings.Join(r.macs, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	on := func(net netip.Prefix) *perf { return &perf{r.clients, tool, macs, net} }
	ours, peer := on(ourNet), on(peerNet)
	name := "dnsmasq"
	dnsmasq, missing := program("dnsmasq", "dnsmasq-base")
	if missing != "" {
		peer, name = nil, missing
	} else {
		p := r.startPeer(t, ":67", dnsmasq, "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
			"--interface="+peerCable, "--bind-interfaces", "--dhcp-range=10.68.128.0,10.68.255.254,10m",
			"--dhcp-leasefile="+filepath.Join(r.peers.Dir, "leases"), "--dhcp-lease-max=65536", "--no-ping",
			"--dhcp-boot=undionly.kpxe", "--pid-file="+filepath.Join(r.peers.Dir, "dnsmasq.pid"))
		defer endPeer(p)
	}
	latency := func(p *perf) func() float64 {
		if p == nil {
			return nil
		}
		return func() float64 { return p.run(t, dhcpLeases, 100, 2*time.Second).delay }
	}
	mine, theirs := pair(latency(ours), latency(peer))
	b.add(row{Subject: "DHCP lease, latency", Unit: "ms", Ours: mine, Peer: theirs, PeerName: name, Less: true, How: "mean of both exchanges at 100 leases/s; ours is on the disk before the ack"})
	for _, kind := range []dhcpKind{dhcpLeases, dhcpOffers} {
		mine, theirs := searchRates(t, kind, ours, peer)
		b.add(row{
			Subject: "DHCP " + kind.name + ", drop-free", Unit: "/s", Ours: mine, Peer: theirs, PeerName: name,
			How: fmt.Sprintf("highest of the rates tried, %s each, %d enrolled MACs", dhcpPeriod, len(r.macs)),
		})
	}
}

const dhcpPeriod = 2 * time.Second

// A dhcpKind is what is measured: whole leases or only offers.
type dhcpKind struct {
	name  string
	first int // rate that the search begins with
	last  int
	args  []string
}

var (
	dhcpLeases = dhcpKind{name: "leases", first: 250, last: 8000}
	dhcpOffers = dhcpKind{name: "offers", first: 500, last: 16000, args: []string{"-i"}}
)

// searchRates doubles the rate until packets are lost, then tries the rate in
// the middle. Both servers are asked in turns at each rate; a rate counts as
// lost when it fails twice, since the machine has other things to do.
func searchRates(t *testing.T, kind dhcpKind, ours, peer *perf) (a, b []float64) {
	t.Helper()
	both := []*rateSearch{{perf: ours}, {perf: peer}}
	for rate := kind.first; rate <= kind.last; rate *= 2 {
		for _, s := range both {
			s.try(t, kind, rate)
		}
	}
	for _, s := range both {
		s.refine(t, kind)
	}
	a = []float64{float64(both[0].best)}
	if peer != nil {
		b = []float64{float64(both[1].best)}
	}
	return a, b
}

// A rateSearch is how far the search has come with one server.
type rateSearch struct {
	perf       *perf // nil: there is no such server
	best, lost int   // the highest rate without a loss, the lowest with one; 0: none yet
}

// refine tries the rate between the two, and lower ones when none was without
// a loss.
func (s *rateSearch) refine(t *testing.T, kind dhcpKind) {
	t.Helper()
	if s.lost == 0 {
		return
	}
	for rate := (s.best + s.lost) / 2; rate >= 30; rate /= 2 {
		s.lost = 0
		s.try(t, kind, rate)
		if s.best > 0 {
			return
		}
	}
}

func (s *rateSearch) try(t *testing.T, kind dhcpKind, rate int) {
	t.Helper()
	if s.perf == nil || s.lost > 0 || rate == 0 {
		return
	}
	for range 2 {
		time.Sleep(500 * time.Millisecond) // a server that is behind gets rid of what was sent before
		got := s.perf.run(t, kind, rate, dhcpPeriod)
		t.Logf("DHCP %s on %s at %d/s: %d sent, %d lost, %.2f ms", kind.name, s.perf.net, rate, got.sent, got.drops, got.delay)
		// The load generator must have kept up, too.
		if got.drops == 0 && float64(got.sent) >= 0.9*float64(rate)*dhcpPeriod.Seconds() {
			s.best = rate
			return
		}
	}
	s.lost = rate
}

// perf runs perfdhcp from the clients' end of a cable.
type perf struct {
	lab  *lab.Lab
	tool string
	macs string // file of MAC addresses to use
	net  netip.Prefix
}

type perfResult struct {
	sent, drops int     // exchanges begun, packets not answered
	delay       float64 // ms, of a whole lease
}

func (p *perf) run(t *testing.T, kind dhcpKind, rate int, period time.Duration) perfResult {
	t.Helper()
	args := append([]string{
		"-4", "-l", clientAddr(p.net, 0).String(), "-M", p.macs, "-r", strconv.Itoa(rate),
		"-p", strconv.Itoa(int(period.Seconds())), "-W", "1000000",
	}, kind.args...)
	ctx, cancel := context.WithTimeout(t.Context(), period+20*time.Second)
	defer cancel()
	out, err := p.lab.Command(ctx, p.tool, append(args, p.net.Addr().String())...).CombinedOutput()
	// 3: some exchanges were not completed, which is what we look for.
	if e, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || e.ExitCode() != 3) {
		t.Fatalf("perfdhcp: %v: %s", err, out)
	}
	got, err := parsePerf(string(out))
	if err != nil {
		t.Fatalf("perfdhcp: %v: %s", err, out)
	}
	return got
}

// parsePerf reads the report: a section for each of the two exchanges.
func parsePerf(said string) (perfResult, error) {
	_, stats, ok := strings.Cut(said, "***Statistics for: DISCOVER-OFFER***")
	if !ok {
		return perfResult{}, errors.New("no statistics in the report")
	}
	var r perfResult
	sent, received := 0, 0
	for line := range strings.Lines(stats) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		number, _, _ := strings.Cut(value, " ")
		f, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue // a heading, or no delay since nothing came
		}
		switch key {
		case "sent packets":
			if sent == 0 {
				r.sent = int(f)
			}
			sent += int(f)
		case "received packets":
			received += int(f)
		case "avg delay":
			r.delay += f
		}
	}
	if sent == 0 {
		return r, errors.New("nothing was sent")
	}
	r.drops = sent - received
	return r, nil
}
