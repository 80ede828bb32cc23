package rack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/hardware"
)

// A Rack is simulated machines and their controllers. Its methods may be called
// concurrently.
type Rack struct {
	opts    Options
	network netip.Addr // where the controllers' addresses begin
	lock    *os.File
	claims  []io.Closer  // of the network
	http    *http.Server // of all Redfish services
	serving sync.WaitGroup

	mu       sync.Mutex
	layout   layout
	machines []*Machine
	byName   map[string]*Machine
	opened   bool
	closed   bool
	ended    chan struct{} // closed by Down
	down     sync.Once
}

// New makes a rack, or takes up the one in the directory. Nothing runs before
// [Rack.Open].
func New(o Options) (*Rack, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("make rack: %w", err)
	}
	if err := makeDir(o.Dir); err != nil {
		return nil, fmt.Errorf("make rack: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("make rack: %w", err)
	}
	r := &Rack{opts: o, lock: lock, byName: map[string]*Machine{}, ended: make(chan struct{})}
	if err := r.fill(); err != nil {
		closeAll(r.claims)
		_ = lock.Close()
		return nil, fmt.Errorf("make rack in %s: %w", o.Dir, err)
	}
	r.http = &http.Server{
		Handler: r, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: stdlog.New(io.Discard, "", 0), // clients that end in the middle are daily bread
	}
	return r, nil
}

// fill reads which machines there are, and adds those that are missing.
func (r *Rack) fill() error {
	old, err := load(filepath.Join(r.opts.Dir, rackFile), &r.layout)
	if err != nil {
		return err
	}
	if old {
		r.opts.Seed = r.layout.Seed
	} else if err := r.plan(); err != nil {
		return err
	}
	first, err := netip.ParseAddr(r.layout.Network)
	if err != nil || !first.Is4() {
		return fmt.Errorf("read %s: network %q is not an IPv4 address", rackFile, r.layout.Network)
	}
	r.network = first
	if r.claims == nil { // what another has shows when the controllers go on the network
		r.claims, _ = claimNetwork(first, max(r.opts.Machines, len(r.layout.Machines)))
	}
	for _, name := range r.layout.Machines {
		ps, err := findProfiles([]string{name})
		if err != nil {
			return err
		}
		if _, err := r.install(ps[0]); err != nil {
			return err
		}
	}
	_, err = r.Add(r.opts.Machines-len(r.machines), "")
	return err
}

// plan decides what a new rack keeps for its life.
func (r *Rack) plan() error {
	first := r.opts.Network.Addr()
	if !r.opts.Network.IsValid() {
		var err error
		if first, r.claims, err = freeNetwork(r.opts.Machines); err != nil {
			return err
		}
	}
	r.layout = layout{Seed: r.opts.Seed, BMC: r.opts.BMC, Network: first.String()}
	return nil
}

// Add adds n machines, of one profile or dealt from the rack's. In an open rack
// they are on the network at once, and off. Those that were added before an
// error stay, and are returned with it.
func (r *Rack) Add(n int, profile string) ([]*Machine, error) {
	names := r.opts.Profiles
	if profile != "" {
		names = []string{profile}
	}
	profiles, err := findProfiles(names)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("add machines: the rack is closed")
	}
	if len(r.machines)+n > maxMachines {
		return nil, fmt.Errorf("add %d machines to %d: a rack holds at most %d", n, len(r.machines), maxMachines)
	}
	var added []*Machine
	for len(added) < n && err == nil {
		var m *Machine
		p := profiles[len(r.machines)%len(profiles)]
		if m, err = r.install(p); err == nil {
			r.layout.Machines = append(r.layout.Machines, p.Name)
			added = append(added, m)
		}
	}
	return added, errors.Join(err, save(filepath.Join(r.opts.Dir, rackFile), r.layout))
}

// install puts the next machine into the rack; into an open one, with its
// controller on the network.
func (r *Rack) install(p hardware.Profile) (*Machine, error) {
	m, err := newMachine(r, len(r.machines), p)
	if err == nil && r.opened {
		err = r.open(m)
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", machineName(len(r.machines)), err)
	}
	r.machines = append(r.machines, m)
	r.byName[m.Name()] = m
	return m, nil
}

// machineName is the name of the machine of an index.
func machineName(index int) string { return fmt.Sprintf("sim-%03d", index+1) }

// Open puts all controllers on the network, and lets the machines start that
// were on. The error has everything that went wrong; then the rack is closed.
func (r *Rack) Open() error {
	if r.opts.TLS {
		cert, _, err := sim.SelfSigned(r.network.AsSlice())
		if err != nil {
			return fmt.Errorf("open rack: %w", err)
		}
		r.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}
	}
	r.mu.Lock()
	var errs []error
	for _, m := range r.machines {
		errs = append(errs, r.open(m))
	}
	r.opened = true
	machines := r.machines
	r.mu.Unlock()
	if err := errors.Join(errs...); err != nil {
		return errors.Join(fmt.Errorf("open rack: %w", err), r.Close())
	}
	for _, m := range machines {
		m.resume()
	}
	return nil
}

// Run lets an open rack run until ctx ends or [Rack.Down] is called, then
// closes it.
func (r *Rack) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-r.ended:
	}
	return r.Close()
}

// Down makes Run return.
func (r *Rack) Down() { r.down.Do(func() { close(r.ended) }) }

// Close ends the machines as a power cut does, and takes their controllers off
// the network. The directory still knows which machines were on.
func (r *Rack) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	machines := r.machines
	r.mu.Unlock()
	var errs errgroup.Group
	errs.SetLimit(256) // an agent takes a moment to end
	errs.Go(r.http.Close)
	for _, m := range machines {
		errs.Go(func() error {
			m.close()
			if m.bmc.ipmi != nil {
				return m.bmc.ipmi.Close()
			}
			return nil
		})
	}
	err := errs.Wait()
	r.serving.Wait()
	closeAll(r.claims)
	return errors.Join(err, r.lock.Close())
}

// Machines returns all machines, in the order of their names.
func (r *Rack) Machines() []*Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Machine(nil), r.machines...)
}

// Machine returns the machine of a name, or nil.
func (r *Rack) Machine(name string) *Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// at returns the machine whose controller has an address. The caller holds the
// lock.
func (r *Rack) at(a netip.Addr) *Machine {
	i := indexOf(r.network, a)
	if i < 0 || i >= len(r.machines) {
		return nil
	}
	return r.machines[i]
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// lockDir makes sure that no other rack has the directory. The lock ends with
// the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock directory %s: another rack uses it: %w", dir, err)
	}
	return f, nil
}
