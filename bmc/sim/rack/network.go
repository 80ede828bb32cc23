package rack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rs/zerolog"

	"bessemer/agent"
	"bessemer/agent/boot"
	"bessemer/agent/fetch"
	"bessemer/bmc"
	"bessemer/bmc/sim/firmware"
	"bessemer/bmc/sim/flaw"
)

// What of a Boot event.
const (
	viaNetwork = "network"
	viaDisk    = "disk"
	viaExit    = "exit" // the boot script handed on to the next device
)

// agentPort is where an agent listens unless it is told otherwise.
const agentPort = 9999

// errNext is a boot script that leaves the machine to its next boot device.
var errNext = errors.New("the boot script hands on to the next boot device")

// bootNetwork boots over the network: the deploy ramdisk, or nothing.
func (m *Machine) bootNetwork(r *run) error {
	m.reach(r, now{stage: StageDHCP})
	b, err := firmware.NetBoot(r.ctx, m.netConfig(r))
	m.noteFaults()
	switch {
	case r.dead.Load():
		return nil
	case errors.Is(err, firmware.ErrStuck):
		return fmt.Errorf("%w: %w", errHangs, err)
	case err != nil:
		return err
	}
	return m.booted(r, b)
}

// booted is what becomes of the machine after network boot.
func (m *Machine) booted(r *run, b firmware.Boot) error {
	e := Event{Kind: Boot, Start: r.number, What: viaNetwork, Text: filesOf(b)}
	if b.Lease.IP.IsValid() {
		e.Lease = b.Lease.IP.String()
	}
	switch b.Action {
	case firmware.Ramdisk:
		m.note(e)
		m.ramdisk(r, b)
		return nil
	case firmware.Reboot:
		m.inBand(r, bmc.Reset, ByFirmware, "the boot script reboots")
		return nil
	case firmware.Off:
		m.inBand(r, bmc.ForceOff, ByFirmware, "the boot script turns off")
		return nil
	default:
		if e.What = viaExit; !r.exited { // a machine that nobody wants asks again and again
			m.note(e)
			r.exited = true
		}
		return errNext
	}
}

func (m *Machine) netConfig(r *run) firmware.Config {
	mac, _ := net.ParseMAC(m.spec.NICs[0].MAC) // our own profile made it
	return firmware.Config{
		Wire: m.rack.opts.Wire, MAC: mac, UUID: m.spec.UUID, Mode: m.BootMode(),
		HTTPBoot: m.profile.HTTPBoot, ROMIsIPXE: m.profile.ROMIsIPXE,
		Flaws: m.flaws, Console: &m.console, Pace: m.rack.opts.Pace,
		Seed: m.random(fmt.Sprint("netboot ", r.number)).Uint64(),
	}
}

// filesOf is what was fetched, in words.
func filesOf(b firmware.Boot) string {
	var said []string
	for _, f := range b.Files {
		said = append(said, fmt.Sprintf("%s (%d bytes, sha256 %s)", f.Name, f.Size, f.SHA256))
	}
	return strings.Join(said, ", ")
}

// ramdisk is the deploy ramdisk: a kernel that starts the agent. When the
// agent ends, the ramdisk reboots after a while.
func (m *Machine) ramdisk(r *run, b firmware.Boot) {
	m.reach(r, now{stage: StageKernel, lease: b.Lease.IP})
	if !r.sleep(m.takes(timeKernel)) {
		return
	}
	err := m.agent(r, b)
	m.noteFaults()
	if r.dead.Load() {
		return
	}
	why := fmt.Sprintf("the agent ended: %v", err)
	m.note(Event{Kind: Agent, Start: r.number, What: "ended", Text: why})
	m.reach(r, now{stage: StageHung, why: why + "; the ramdisk reboots soon"})
	if r.sleep(m.takes(timeCrash)) {
		m.inBand(r, bmc.Reset, ByAgent, why)
	}
}

// errCrashed is why an agent ends that an injected fault has crashed.
var errCrashed = errors.New("the agent crashed")

// agent runs the real agent until it ends, or the machine loses its power.
func (m *Machine) agent(r *run, b firmware.Boot) error {
	args := boot.ParseCmdline(strings.Join(b.Args, " "))
	if args.APIURL == "" {
		return errors.New("the kernel's command line has no ipa-api-url: " + strings.Join(b.Args, " "))
	}
	port := agentPort
	if args.ListenPort != 0 {
		port = args.ListenPort
	}
	p, err := listen(netip.AddrPortFrom(b.Lease.IP, uint16(port)))
	if err != nil {
		return err
	}
	r.connect(p.pull)
	defer p.pull()
	ctx, crash := context.WithCancelCause(r.ctx)
	defer crash(nil)
	fate := make(chan error, 1) // why it is ended from here; known before its connections break
	end := func(why error) {
		select {
		case fate <- why:
		default: // it has one
		}
		p.pull()
		crash(why)
	}
	c := m.agentConfig(args, b.Lease.IP)
	machine := m.hardware(r, b)
	c.Listener, c.Now, c.Dice = p, machine.Now, m.dice(fmt.Sprint("agent ", r.number))
	c.Stall, c.Memory = max(m.takes(timeStall), leastStall), fileMemory
	faults := c.Policy.Via
	c.Policy.Via = func(next http.RoundTripper) http.RoundTripper { return faults(machine.Via(next)) }
	c.Before = func(string) error {
		if _, hit := m.flaws.Hit(flaw.AgentCrash); hit {
			end(errCrashed)
			return errCrashed
		}
		return nil
	}
	lease := m.hold(ctx, r, b.Lease, end)
	defer lease.end()
	m.note(Event{Kind: Agent, Start: r.number, What: "runs", Text: p.Addr().String()})
	m.reach(r, now{stage: StageAgent, lease: b.Lease.IP})
	err = agent.Run(ctx, c, powered{machine, m, r})
	select { // what ended it says more than what came of that
	case why := <-fate:
		return why
	default:
	}
	return cmp.Or(context.Cause(ctx), err)
}

// agentConfig is what the ramdisk's own program makes of the command line.
func (m *Machine) agentConfig(args boot.Cmdline, ip netip.Addr) agent.Config {
	host := ip.String()
	if args.AdvertiseHost != "" {
		host = args.AdvertiseHost
	}
	return agent.Config{
		APIURL:        args.APIURL,
		NodeUUID:      args.Args["ipa-node-uuid"],
		Token:         args.AgentToken,
		AdvertiseHost: host,
		LookupTimeout: args.LookupTimeout,
		DiskWait:      m.takes(timeDisks),
		Insecure:      args.Insecure,
		Console:       &m.console,
		Version:       m.rack.opts.Version,
		Logger:        zerolog.New(&m.console).Level(zerolog.WarnLevel),
		Policy: fetch.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Local: ip,
			Via: func(next http.RoundTripper) http.RoundTripper {
				return downloads{next: next, flaws: m.flaws, hit: m.noteFaults}
			},
		},
	}
}
