package redfish

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"bessemer/bmc"
)

// driver is one machine behind a controller. Calls are made one at a time.
type driver struct {
	mu      sync.Mutex
	conn    *conn
	system  string // the machine's path once it is known
	bootURI string // where the boot setting was written last
	order   bootOrder
	last    reading
}

// A reading is the machine's resource as it was read last. For a moment it
// saves the reads that follow each other in one operation; what decides an
// operation's outcome is always read anew.
type reading struct {
	at time.Time
	s  *system
	t  *tags
}

// fresh is how long a reading may stand for another one.
const fresh = 300 * time.Millisecond

// recent returns the machine's resource, at most a moment old.
func (d *driver) recent(ctx context.Context) (*system, error) {
	if d.last.s != nil && time.Since(d.last.at) < fresh {
		return d.last.s, nil
	}
	return d.read(ctx)
}

var _ bmc.Driver = (*driver)(nil)

func newDriver(s settings) *driver { return &driver{conn: newConn(s)} }

// Address implements [bmc.Addressed].
func (d *driver) Address() string { return d.conn.s.origin.Host }

// Close implements [bmc.Driver].
func (d *driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conn.close()
}

const maxLinks = 64 // followed from one collection

// Identify implements [bmc.Driver]. Only the machine itself must be readable;
// what else is missing or broken is left out.
func (d *driver) Identify(ctx context.Context) (bmc.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.read(ctx)
	if err != nil {
		return bmc.Info{}, err
	}
	r := d.conn.root
	p := profileOf(string(r.Vendor), string(r.Product), string(s.Manufacturer))
	info := bmc.Info{
		Vendor: string(s.Manufacturer), Model: string(s.Model),
		SystemUUID: strings.ToLower(string(s.UUID)), Serial: string(s.SerialNumber),
	}
	if info.Vendor == "" {
		info.Vendor = string(r.Vendor)
	}
	if p.serialInSKU && s.SKU != "" {
		info.Serial = string(s.SKU)
	}
	if info.Firmware, err = d.firmware(ctx, s); err != nil {
		return bmc.Info{}, err
	}
	info.MACs, err = d.macs(ctx, s)
	return info, err
}

// firmware reads the version of the controller's firmware.
func (d *driver) firmware(ctx context.Context, s *system) (string, error) {
	paths := collection{Members: s.Links.v.ManagedBy}.paths(1)
	if len(paths) == 0 {
		var c collection
		if err := d.optional(ctx, d.conn.root.Managers.path(), &c); err != nil {
			return "", err
		}
		paths = c.paths(1)
	}
	if len(paths) == 0 {
		return "", nil
	}
	var m manager
	err := d.optional(ctx, paths[0], &m)
	return string(m.FirmwareVersion), err
}

// macs reads the addresses of the machine's network cards, as far as there
// are any (N-01, N-04).
func (d *driver) macs(ctx context.Context, s *system) ([]string, error) {
	var c collection
	if err := d.optional(ctx, s.EthernetInterfaces.path(), &c); err != nil {
		return nil, err
	}
	var macs []string
	for _, p := range c.paths(maxLinks) {
		var e ethernetInterface
		if err := d.optional(ctx, p, &e); err != nil {
			return nil, err
		}
		mac := normalMAC(string(e.PermanentMACAddress))
		if mac == "" {
			mac = normalMAC(string(e.MACAddress))
		}
		if mac != "" && !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	return macs, nil
}

// normalMAC writes a MAC address in lower case with colons; what is none, or
// means none, is "" (N-01, N-02).
func normalMAC(s string) string {
	hw, err := net.ParseMAC(s)
	if err != nil || len(hw) != 6 || hw.String() == "00:00:00:00:00:00" || hw.String() == "ff:ff:ff:ff:ff:ff" {
		return ""
	}
	return hw.String()
}

// optional reads a resource if it can be read. Only errors that any further
// request would meet too are errors.
func (d *driver) optional(ctx context.Context, path string, v any) error {
	if path == "" {
		return nil
	}
	_, err := d.conn.get(ctx, path, v)
	if ctx.Err() != nil || errors.Is(err, bmc.ErrCredentials) || errors.Is(err, bmc.ErrUnreachable) {
		return err
	}
	return nil
}

// read reads the machine's resource, fresh.
func (d *driver) read(ctx context.Context) (*system, error) {
	if err := d.locate(ctx); err != nil {
		return nil, err
	}
	s := &system{}
	d.last = reading{}
	x, err := d.conn.get(ctx, d.system, s)
	if status(err) == http.StatusNotFound { // B-18: until its parent was read once
		var c collection
		if _, perr := d.conn.get(ctx, path.Dir(d.system), &c); perr != nil {
			return nil, fmt.Errorf("%w; check redfish_system_id", err)
		}
		if x, err = d.conn.get(ctx, d.system, s); status(err) == http.StatusNotFound {
			return nil, fmt.Errorf("%w; check redfish_system_id: the controller lists %s", err, listed(c.paths(10)))
		}
	}
	if err == nil {
		d.last = reading{time.Now(), s, &tags{x.header.Get("ETag"), string(s.ETag)}}
	}
	return s, err
}

// locate finds the machine's path: as given, or the only one there is.
func (d *driver) locate(ctx context.Context) error {
	id := d.conn.s.system
	if d.system != "" {
		return nil
	}
	if strings.HasPrefix(id, "/") {
		d.system = id
		return nil
	}
	if err := d.conn.again(ctx, func() error { return d.conn.connect(ctx) }); err != nil {
		return err
	}
	systems := d.conn.root.Systems.path()
	if systems == "" {
		systems = "/redfish/v1/Systems"
	}
	if id != "" {
		d.system = strings.TrimSuffix(systems, "/") + "/" + id
		return nil
	}
	var c collection
	if _, err := d.conn.get(ctx, systems, &c); err != nil {
		return fmt.Errorf("list the controller's systems: %w", err)
	}
	switch paths := c.paths(11); len(paths) {
	case 0:
		return fmt.Errorf("the controller lists no system under %s; set redfish_system_id if it has one", systems)
	case 1:
		d.system = paths[0]
		return nil
	default:
		return fmt.Errorf("the controller has several systems; set redfish_system_id to one of %s", listed(paths))
	}
}

func listed(paths []string) string {
	if len(paths) == 0 {
		return "none"
	}
	if len(paths) > 10 {
		return strings.Join(paths[:10], ", ") + ", ..."
	}
	return strings.Join(paths, ", ")
}
