package api

import (
	"net/http"
	"slices"
	"time"

	"bessemer/bmc"
)

// bmcTime is how long a request may take that waits for a controller.
const bmcTime = 2 * time.Minute

var bootDevices = []bmc.BootDevice{bmc.PXE, bmc.Disk, bmc.CDROM, bmc.BIOSSetup, bmc.Safe, bmc.UEFIHTTP}

func showBootDevice(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(bmcTime)
	defer cancel()
	b, err := c.api.conductor.BootDevice(ctx, n.UUID)
	if err != nil {
		return err
	}
	out := map[string]any{"boot_device": orNull(b.Device), "persistent": nil}
	if b.Device != "" {
		out["persistent"] = b.Persistent
	}
	c.json(http.StatusOK, out)
	return nil
}

func setBootDevice(c *call) error {
	var body struct {
		Device     bmc.BootDevice `json:"boot_device"`
		Persistent any            `json:"persistent"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	persistent, err := parseBool("persistent", body.Persistent)
	if err != nil {
		return err
	}
	if !slices.Contains(bootDevices, body.Device) {
		return invalid("Invalid boot device %s specified; it must be one of %q.", shown(body.Device), bootDevices)
	}
	n, err := c.node()
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(bmcTime)
	defer cancel()
	if err := c.api.conductor.SetBootDevice(ctx, n.UUID, bmc.Boot{Device: body.Device, Persistent: persistent}); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func listBootDevices(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	ctx, cancel := c.lasting(bmcTime)
	defer cancel()
	ds, err := c.api.conductor.SupportedBootDevices(ctx, n.UUID)
	if err != nil {
		return err
	}
	if ds == nil {
		ds = []bmc.BootDevice{}
	}
	c.json(http.StatusOK, map[string]any{"supported_boot_devices": ds})
	return nil
}
