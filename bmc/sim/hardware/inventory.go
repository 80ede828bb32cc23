package hardware

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"

	"bessemer/agent/wire"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

// inventory is the hardware but for its disks.
func inventory(c Config) wire.Inventory {
	inv := wire.Inventory{
		CPU: wire.CPU{
			ModelName: c.Profile.CPU, Frequency: fmt.Sprint(c.Profile.MHz), Count: c.Spec.CPUs,
			Architecture: "x86_64", Flags: []string{"fpu", "vmx", "aes", "rdrand"},
		},
		Memory:       wire.Memory{Total: int64(c.Spec.MemoryMiB) * mib * 98 / 100, PhysicalMB: int64(c.Spec.MemoryMiB)},
		SystemVendor: wire.SystemVendor{ProductName: c.Spec.Model, SerialNumber: c.Spec.Serial, Manufacturer: c.Spec.Manufacturer, UUID: c.Spec.UUID},
		Boot:         wire.BootInfo{CurrentBootMode: c.BootMode, PXEInterface: c.BootMAC},
		BMCAddress:   c.BMCAddress, Hostname: c.Spec.Name,
	}
	for i, n := range c.Spec.NICs {
		inv.Interfaces = append(inv.Interfaces, card(c, i, n))
	}
	return inv
}

// card is a network card. The first two have a cable; the switch at its other
// end tells its name and the port, which go by the machine's place.
func card(c Config, i int, n sim.NIC) wire.Interface {
	out := wire.Interface{Name: fmt.Sprintf("eth%d", i), MACAddress: n.MAC, HasCarrier: i < 2, SpeedMbps: n.SpeedM}
	if i < len(c.Profile.NICs) {
		p := c.Profile.NICs[i]
		out.Name, out.Vendor, out.Product, out.Driver, out.PCIAddress = p.Name, p.Vendor, p.Product, p.Driver, p.PCI
	}
	if c.IP.IsValid() && strings.EqualFold(n.MAC, c.BootMAC) {
		if c.IP.Is4() {
			out.IPv4Address = c.IP.String()
		} else {
			out.IPv6Address = c.IP.String()
		}
	}
	if out.HasCarrier {
		out.LLDP = neighbour(n.MAC, i)
	}
	return out
}

// neighbour is what a switch says of itself (IEEE 802.1AB 8.5), as the agent
// reports it: pairs of a type and its value in hex.
func neighbour(mac string, card int) [][2]any {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return nil
	}
	place := int(hw[3])<<8 | int(hw[4])
	chassis := []byte{4, 0x02, 0x5c, 0x73, byte(place / 48 >> 8), byte(place / 48), byte(card)}
	name := fmt.Sprintf("leaf-%d%c", place/48+1, 'a'+card)
	port := fmt.Sprintf("\x05Ethernet1/%d", place%48+1)
	var out [][2]any
	for _, tlv := range []struct {
		kind  int
		value []byte
	}{
		{1, chassis},
		{2, []byte(port)},
		{3, []byte{0, 120}},
		{4, []byte("to " + mac)},
		{5, []byte(name)},
		{6, []byte("Simulated leaf switch")},
		{127, []byte{0x00, 0x80, 0xc2, 1, 0, 100}}, // the port's VLAN is 100
	} {
		out = append(out, [2]any{tlv.kind, hex.EncodeToString(tlv.value)})
	}
	return out
}

// inventoryQuirks are the quirks of what is reported, disks aside.
var inventoryQuirks = []struct {
	id    flaw.ID
	apply func(*wire.Inventory)
}{
	{"N-01", noMAC},
	{"N-02", oddMAC},
	{"N-03", bond},
	{"N-08", oddLLDP},
	{"N-09", unknowns},
	{"A-04", linkLocal},
}

// noMAC adds cards without an address.
func noMAC(inv *wire.Inventory) {
	for name, mac := range map[string]string{"ib0": "", "usb0": "N/A", "idrac": "00:00:00:00:00:00", "tun0": "ff:ff:ff:ff:ff:ff"} {
		inv.Interfaces = append(inv.Interfaces, wire.Interface{Name: name, MACAddress: mac})
	}
	slices.SortFunc(inv.Interfaces, func(a, b wire.Interface) int { return strings.Compare(a.MACAddress, b.MACAddress) })
}

// oddMAC spells addresses as vendors do.
func oddMAC(inv *wire.Inventory) {
	for i := range inv.Interfaces {
		n := &inv.Interfaces[i]
		hw, err := net.ParseMAC(n.MACAddress)
		if err != nil || len(hw) != 6 {
			continue
		}
		switch i % 2 {
		case 0:
			n.MACAddress = strings.ToUpper(strings.ReplaceAll(n.MACAddress, ":", "-"))
		default:
			h := strings.ToUpper(hex.EncodeToString(hw))
			n.MACAddress = h[:4] + "." + h[4:8] + "." + h[8:]
		}
	}
}

// bond lets all cards show the first one's address, as parts of a bond do, and
// adds the bond and a card of a DPU that nobody knows.
func bond(inv *wire.Inventory) {
	if len(inv.Interfaces) == 0 {
		return
	}
	first := inv.Interfaces[0].MACAddress
	for i := range inv.Interfaces {
		inv.Interfaces[i].MACAddress = first
	}
	inv.Interfaces = append([]wire.Interface{{Name: "pf0vf0", MACAddress: "02:ff:00:00:00:01"}}, inv.Interfaces...)
	inv.Interfaces = append(inv.Interfaces, wire.Interface{Name: "bond0", MACAddress: first, HasCarrier: true})
}

// oddLLDP lets a switch talk nonsense, and a card say that it is ready without
// being so.
func oddLLDP(inv *wire.Inventory) {
	for i := range inv.Interfaces {
		n := &inv.Interfaces[i]
		n.LLDP = [][2]any{{1, "zz"}, {"two", 3}, {0, "\xff\xfe\x00"}, {127, nil}}
		n.HasCarrier, n.SpeedMbps = true, -1
	}
}

// unknowns are values that firmware leaves out.
func unknowns(inv *wire.Inventory) {
	inv.BMCAddress, inv.BMCV6Address = "", "::"
	inv.Memory = wire.Memory{}
	inv.CPU.Frequency, inv.CPU.ModelName, inv.CPU.Flags = "", "", nil
	inv.SystemVendor = wire.SystemVendor{}
	for i := range inv.Interfaces {
		n := &inv.Interfaces[i]
		n.Vendor, n.Product, n.PCIAddress, n.SpeedMbps = "", "", "", 0
	}
}

// linkLocal shows addresses that nobody else reaches.
func linkLocal(inv *wire.Inventory) {
	for i := range inv.Interfaces {
		inv.Interfaces[i].IPv4Address, inv.Interfaces[i].IPv6Address = fmt.Sprintf("169.254.7.%d", i+1), fmt.Sprintf("fe80::%d", i+1)
	}
}
