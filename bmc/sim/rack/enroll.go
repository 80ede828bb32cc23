package rack

import "bessemer/bmc/sim"

// An Enrollment is what to tell an appliance of a machine: the node and its
// ports.
type Enrollment struct {
	Name       string         `json:"name"`
	Driver     string         `json:"driver"`
	DriverInfo map[string]any `json:"driver_info"`
	Properties map[string]any `json:"properties"`
	MACs       []string       `json:"macs"`
}

// Enrollment returns what an appliance needs to know of the machine.
func (m *Machine) Enrollment() Enrollment {
	e := Enrollment{Name: m.Name(), Driver: m.bmc.protocol, DriverInfo: m.bmc.driverInfo(), MACs: m.macs()}
	var disk int64
	for _, d := range m.spec.Disks {
		if disk == 0 || d.Size < disk {
			disk = d.Size
		}
	}
	mode := sim.UEFI
	if len(m.spec.Modes) > 0 {
		mode = m.spec.Modes[0]
	}
	e.Properties = map[string]any{
		"cpus": m.spec.CPUs, "memory_mb": m.spec.MemoryMiB, "local_gb": disk >> 30, "cpu_arch": "x86_64",
		"capabilities": "boot_mode:" + mode,
	}
	return e
}
