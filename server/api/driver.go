package api

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"bessemer/bmc"
	"bessemer/server/conductor"
)

// A driverView is a hardware type as clients see it.
type driverView struct {
	name string
	kind bmc.Type
}

// drivers is what clients see of a driver.
var drivers = &resource[driverView]{
	plural: "drivers", fieldsSince: 77,
	id:   func(d *driverView) string { return d.name },
	born: func(a, b *driverView) int { return strings.Compare(a.name, b.name) },

	fields: driverFields(),
}

func driverFields() []field[driverView] {
	fs := []field[driverView]{
		{"name", 1, func(_ *call, d *driverView) any { return d.name }, nil},
		{"hosts", 1, func(c *call, _ *driverView) any { return []string{c.api.conductor.Hostname()} }, nil},
		{"links", 1, func(c *call, d *driverView) any { return c.links("/drivers/" + d.name) }, nil},
		{"properties", 14, func(c *call, d *driverView) any { return c.links("/drivers/" + d.name + "/properties") }, nil},
		{"type", 30, func(*call, *driverView) any { return "dynamic" }, nil},
	}
	for _, k := range interfaceKinds {
		since := max(k.since, 30)
		if since == 31 {
			since = 30
		}
		fs = append(
			fs,
			field[driverView]{"default_" + k.kind + "_interface", since, func(_ *call, d *driverView) any { return orNull(implementations(d.kind, k.kind, k.none)[0]) }, nil},
			field[driverView]{"enabled_" + k.kind + "_interfaces", since, func(_ *call, d *driverView) any { return implementations(d.kind, k.kind, k.none) }, nil},
		)
	}
	return fs
}

// implementations lists a driver's implementations of an aspect, the default
// first.
func implementations(t bmc.Type, kind, none string) []string {
	if names := t.Interfaces[kind]; len(names) > 0 {
		return names
	}
	return []string{none}
}

func listDrivers(c *call) error {
	if err := c.only("type", "detail", "fields"); err != nil {
		return err
	}
	kind, hasKind := c.param("type")
	_, hasDetail := c.param("detail")
	if (hasKind || hasDetail) && c.v < 30 {
		return notAcceptable("?type= and ?detail=", 30)
	}
	if hasKind && kind != "classic" && kind != "dynamic" {
		return invalid("driver type must be one of \"dynamic\" or \"classic\", not %s", shown(kind))
	}
	names, err := driverColumns(c)
	if err != nil {
		return err
	}
	var all []*driverView
	if kind != "classic" {
		types := c.api.conductor.Types()
		for _, name := range slices.Sorted(maps.Keys(types)) {
			all = append(all, &driverView{name: name, kind: types[name]})
		}
	}
	return drivers.answer(c, page{limit: maxLimit, names: names}, all, nil)
}

// driverColumns is what a list of drivers shows: without the interfaces,
// unless asked for.
func driverColumns(c *call) ([]string, error) {
	names, err := drivers.asked(c)
	if err != nil {
		return nil, err
	}
	s, _ := c.param("detail")
	detail, err := parseBool("detail", orNull(s))
	switch {
	case err != nil:
		return nil, err
	case detail && names != nil:
		return nil, invalid("Can not specify ?detail=True and fields in the same request.")
	case detail, names != nil:
		return names, nil
	}
	return drivers.visible(c, []string{"name", "hosts", "links", "properties", "type"}), nil
}

func (c *call) driver() (*driverView, error) {
	name := c.path("driver")
	t, ok := c.api.conductor.Types()[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "Could not find the following driver(s) or hardware type(s): %s.", printable(name))
	}
	return &driverView{name: name, kind: t}, nil
}

func showDriver(c *call) error {
	if err := c.only("fields"); err != nil {
		return err
	}
	d, err := c.driver()
	if err != nil {
		return err
	}
	return drivers.show(c, http.StatusOK, d)
}

func showDriverProperties(c *call) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	out := map[string]string{}
	for _, p := range slices.Concat(d.kind.Properties, conductor.Properties) {
		out[p.Name] = p.Help
	}
	c.json(http.StatusOK, out)
	return nil
}

// logicalDisk is what a client may say of a logical disk of a target RAID
// configuration.
var logicalDisk = map[string]string{
	"raid_level":               "RAID level of the logical disk, such as 0, 1, 5, 6, 1+0, 5+0, 6+0 or JBOD. Required.",
	"size_gb":                  "Size in GiB as an integer, or MAX for what is left. Required.",
	"volume_name":              "Name of the volume; made up when missing. Optional.",
	"is_root_volume":           "Whether the operating system goes there; false by default. Optional.",
	"share_physical_disks":     "Whether other logical disks may use the same physical ones; false by default. Optional.",
	"disk_type":                "Type of the physical disks: hdd or ssd. Optional.",
	"interface_type":           "Interface of the physical disks: sata, scsi, sas or nvme. Optional.",
	"number_of_physical_disks": "How many physical disks to use. Optional.",
	"controller":               "The RAID controller to use. Optional.",
	"physical_disks":           "The physical disks to use, by the names the RAID interface knows. Optional.",
}

func showLogicalDiskProperties(c *call) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	if implementations(d.kind, "raid", "no-raid")[0] == "no-raid" && len(d.kind.Interfaces["raid"]) < 2 {
		return refuse(http.StatusNotFound, "Driver %s does not support raid (disabled or not implemented).", d.name)
	}
	c.json(http.StatusOK, logicalDisk)
	return nil
}

func noDriverMethods(c *call) error {
	if _, err := c.driver(); err != nil {
		return err
	}
	c.json(http.StatusOK, struct{}{})
	return nil
}

// noMethods lists the vendor methods of a node: there are none.
func noMethods(c *call) error {
	if _, err := c.node(); err != nil {
		return err
	}
	c.json(http.StatusOK, struct{}{})
	return nil
}

func noSuchMethod(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	m := c.path("method")
	if m == "" {
		if m, _ = c.param("method"); m == "" {
			return invalid("Method not specified")
		}
	}
	return invalid("Driver %s has no handler for method %s", n.Driver, shown(m))
}
