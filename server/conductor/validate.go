package conductor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bessemer/bmc"
	"bessemer/store"
)

// CheckDriver implements [API]: the driver exists, its driver_info is sound,
// and it has the interfaces that the node names.
func (c *Conductor) CheckDriver(n *store.Node) error {
	t, ok := c.config.Types[n.Driver]
	if !ok {
		return fmt.Errorf("%w: driver %q is unknown; the drivers of this appliance are %s", ErrInvalid, clip(n.Driver, 100),
			strings.Join(slices.Sorted(maps.Keys(c.config.Types)), ", "))
	}
	var faults []error
	for _, kind := range slices.Sorted(maps.Keys(n.Interfaces)) {
		choices, ok := t.Interfaces[kind]
		if !ok {
			faults = append(faults, fmt.Errorf("driver %s has no interface %s_interface", n.Driver, clip(kind, 50)))
		} else if !slices.Contains(choices, n.Interfaces[kind]) {
			faults = append(faults, fmt.Errorf("%s_interface %q is not one of driver %s: %s", kind, clip(n.Interfaces[kind], 50),
				n.Driver, strings.Join(choices, ", ")))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(faults...))
	}
	return nil
}

// iface returns the implementation of an interface that a node uses.
func (c *Conductor) iface(n *store.Node, kind string) string {
	if name := n.Interfaces[kind]; name != "" {
		return name
	}
	if choices := c.config.Types[n.Driver].Interfaces[kind]; len(choices) > 0 {
		return choices[0]
	}
	return ""
}

// Validate implements [API]. It looks at what is recorded; only an image that
// lies elsewhere is asked for. The controller is not.
func (c *Conductor) Validate(ctx context.Context, node string) (map[string]Validation, error) {
	n, err := c.node(node)
	if err != nil {
		return nil, err
	}
	ports, err := c.ports(n.UUID)
	if err != nil {
		return nil, err
	}
	driver := c.checkInfo(n)
	v := map[string]Validation{
		"power": verdict(driver), "management": verdict(driver),
		"boot":    verdict(c.checkBoot(n, ports)),
		"network": verdict(checkNetwork(ports)),
		"storage": verdict(nil),
		"deploy":  verdict(nil),
	}
	if c.iface(n, "deploy") != "fake" {
		deploy := errors.Join(c.checkRamdisk(n, ports), c.checkImage(ctx, n))
		v["deploy"] = verdict(deploy)
	}
	for _, kind := range []string{"console", "inspect", "bios", "raid", "rescue", "firmware", "vendor"} {
		v[kind] = c.unused(n, kind)
	}
	return v, nil
}

func verdict(err error) Validation {
	ok := err == nil
	v := Validation{Result: &ok}
	if err != nil {
		v.Reason = clip(strings.ReplaceAll(err.Error(), "\n", "; "), 2000)
	}
	return v
}

// unused is the verdict on an interface that this release does nothing with.
func (c *Conductor) unused(n *store.Node, kind string) Validation {
	if c.iface(n, kind) == "fake" {
		return verdict(nil)
	}
	return Validation{Reason: "not supported"}
}

// checkInfo reports every fault of a node's driver_info.
func (c *Conductor) checkInfo(n *store.Node) error {
	_, err := startLimit(n)
	if err := errors.Join(c.CheckDriver(n), err); err != nil {
		return err
	}
	d, err := c.config.Types[n.Driver].Open(bmc.Target{Node: n.UUID, DriverInfo: n.DriverInfo, LastPower: n.PowerState})
	if err != nil {
		return fmt.Errorf("driver_info: %w", err)
	}
	return d.Close()
}

var errNoImage = errors.New("instance_info has no image_source: set it to the name or UUID of an image that was added with `bessemer image add`, or to an http or https URL")

// checkDeploy checks what a deploy needs, short of finding the image.
func (c *Conductor) checkDeploy(n *store.Node, ports []*store.Port) error {
	if err := c.checkRamdisk(n, ports); err != nil {
		return err
	}
	if s, _ := n.InstanceInfo["image_source"].(string); s == "" {
		return errNoImage
	}
	return nil
}

// checkImage finds the image.
func (c *Conductor) checkImage(ctx context.Context, n *store.Node) error {
	if s, _ := n.InstanceInfo["image_source"].(string); s == "" {
		return errNoImage
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeouts.Request)
	defer cancel()
	_, err := c.config.Images.Resolve(ctx, n.InstanceInfo)
	return err
}

// checkRamdisk checks what it takes to run the ramdisk on a node.
func (c *Conductor) checkRamdisk(n *store.Node, ports []*store.Port) error {
	return errors.Join(c.checkInfo(n), c.checkBoot(n, ports), checkRootDevice(n))
}

func (c *Conductor) checkBoot(n *store.Node, ports []*store.Port) error {
	var off error
	if c.config.BaseURL == "" {
		off = errors.New("network boot is off: name the interface towards the machines in provisioning.interface")
	}
	return errors.Join(off, checkCapabilities(n), checkNetwork(ports))
}

func checkNetwork(ports []*store.Port) error {
	if !slices.ContainsFunc(ports, func(p *store.Port) bool { return p.PXEEnabled }) {
		return errors.New("the node has no port that boots from the network (pxe_enabled); add one with its MAC address")
	}
	return nil
}
