package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// loaders is how many drivers are loaded at once. A driver looks for its
// hardware while it is loaded, which takes some of them half a minute.
const loaders = 8

// alwaysLoaded are modules that no device asks for.
var alwaysLoaded = []string{"af_packet", "efivarfs", "ipmi_devintf", "evdev"}

// devices loads drivers: for what is there at boot, then for what appears.
type devices struct {
	modules *Modules
	warn    func(error)
	slots   chan struct{}

	mu    sync.Mutex
	idle  *sync.Cond      // signalled when no load is under way
	seen  map[string]bool // modaliases
	last  time.Time       // when a device appeared or a driver was loaded
	loads int             // under way
}

func newDevices(modules *Modules, warn func(error)) *devices {
	d := &devices{modules: modules, warn: warn, slots: make(chan struct{}, loaders), seen: map[string]bool{}}
	d.idle = sync.NewCond(&d.mu)
	return d
}

// loadModules loads the drivers of all devices that are there now, and starts
// to watch for new ones.
func (s *System) loadModules(ctx context.Context) error {
	start := time.Now()
	modules, err := OpenModules(modulesDir(), s.Cmdline.Args)
	if err != nil {
		return fmt.Errorf("%w; hardware whose drivers are modules cannot be used", err)
	}
	s.modules = modules
	s.devices = newDevices(modules, s.warn)
	events, err := openUevents() // before looking: what appears meanwhile is not missed
	if err != nil {
		s.warn(err)
	} else {
		s.task("device events", func() error { return s.devices.watch(ctx, events) })
	}
	for _, name := range append(slices.Clone(alwaysLoaded), extraModules(modules.dir)...) {
		s.devices.load(name)
	}
	for round := 0; s.devices.coldplug() && round < 10; round++ { // a bus driver brings further devices
		s.devices.wait()
	}
	s.say("drivers: %d modules loaded in %.1f s: %s", len(modules.Loaded()), time.Since(start).Seconds(), strings.Join(modules.Loaded(), " "))
	return nil
}

// extraModules are those that whoever built the ramdisk wanted loaded.
func extraModules(dir string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, "modules.load")) // none is usual
	return strings.Fields(string(b))
}

// coldplug reads the modalias of every device and reports whether there were
// new ones.
func (d *devices) coldplug() bool {
	files, _ := filepath.Glob("/sys/bus/*/devices/*/modalias") // the pattern is right
	more, _ := filepath.Glob("/sys/class/dmi/id/modalias")
	added := false
	for _, file := range append(files, more...) {
		if b, err := os.ReadFile(file); err == nil {
			added = d.device(strings.TrimSpace(string(b))) || added
		}
	}
	return added
}

// device loads the drivers for a modalias, unless that was done before.
func (d *devices) device(modalias string) bool {
	d.mu.Lock()
	known := d.seen[modalias] || modalias == ""
	d.seen[modalias] = true
	d.last = time.Now()
	d.mu.Unlock()
	if known {
		return false
	}
	for _, name := range d.modules.Match(modalias) {
		d.load(name)
	}
	return true
}

// load loads a module in its own time.
func (d *devices) load(name string) {
	d.count(1)
	go func() { // wait waits for it
		d.slots <- struct{}{}
		defer func() { <-d.slots; d.count(-1) }()
		if err := d.modules.Load(name); err != nil {
			d.warn(err)
		}
	}()
}

func (d *devices) count(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loads += n
	d.last = time.Now()
	if d.loads == 0 {
		d.idle.Broadcast()
	}
}

// wait waits until no driver is being loaded.
func (d *devices) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.loads > 0 {
		d.idle.Wait()
	}
}

// How long no device must have appeared until all disks are there. Those of
// most drivers come with the driver; USB storage looks for its disks a second
// after it was found, and controllers for many disks find them one by one.
const (
	settleQuiet = 300 * time.Millisecond
	settleSlow  = 2 * time.Second
)

// slowModules are drivers, and what drivers build on, that find their disks
// slowly.
var slowModules = []string{
	"usb_storage", "uas", "scsi_transport_sas", "scsi_transport_fc", "scsi_transport_spi", "megaraid_sas", "megaraid_mbox",
	"hpsa", "smartpqi", "aacraid", "arcmsr", "mpi3mr", "3w_9xxx", "3w_sas", "mmc_core", "vmd",
}

// Settle waits until no driver is being loaded and no device has appeared for
// a while (quirk K-05), but no longer than ctx.
func (s *System) Settle(ctx context.Context) {
	for s.devices != nil {
		wait := s.devices.unsettled()
		if wait <= 0 {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (d *devices) unsettled() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loads > 0 {
		return settleQuiet / 10
	}
	quiet := settleQuiet
	if d.modules.anyLoaded(slowModules) {
		quiet = settleSlow
	}
	return quiet - time.Since(d.last)
}

// openUevents opens the socket on which the kernel announces devices.
func openUevents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen for devices: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) // or a burst is lost; the next look finds the devices
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen for devices: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// watch loads drivers for devices as they appear, until ctx ends.
func (d *devices) watch(ctx context.Context, events *os.File) error {
	defer d.wait()
	defer events.Close() // twice is harmless
	defer context.AfterFunc(ctx, func() { events.Close() })()
	buf := make([]byte, 64<<10)
	for {
		n, err := events.Read(buf)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS): // events were lost
			d.coldplug()
		case err != nil:
			return fmt.Errorf("read device events: %w", err)
		default:
			if action, modalias := parseUevent(string(buf[:n])); action == "add" {
				d.device(modalias)
			}
		}
	}
}

// parseUevent reads "add@/devices/pci0000:00/…", followed by KEY=value strings
// that end with zero bytes.
func parseUevent(text string) (action, modalias string) {
	for field := range strings.SplitSeq(text, "\x00") {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "ACTION":
			action = value
		case "MODALIAS":
			modalias = value
		}
	}
	return action, modalias
}
