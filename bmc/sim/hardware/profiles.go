package hardware

import (
	"time"

	"bessemer/bmc/sim"
)

const (
	gib = 1 << 30
	mib = 1 << 20
)

// Sizes of disks as they are sold, in bytes.
const (
	size240GB  = 240_057_409_536
	size480GB  = 480_103_981_056
	size960GB  = 960_197_124_096
	size1920GB = 1_920_383_410_176
	size8TB    = 8_001_563_222_016
)

var (
	both     = []string{sim.UEFI, sim.BIOS}
	uefiOnly = []string{sim.UEFI}
)

// Profiles lists the shapes of machines.
func Profiles() []Profile {
	return []Profile{tiny, dellR640, hpeDL360, supermicro, lenovoSR630, amdNVMe, edge, oldIPMI}
}

// tiny is for tests of scale: it takes no time and next to no space.
var tiny = Profile{
	Name: "tiny", Manufacturer: "Bessemer", Model: "Tiny", CPU: "Simulated CPU", MHz: 2000, CPUs: 1, MemoryMiB: 2048,
	NICs:  []NIC{{"eth0", "0x1af4", "0x1041", "virtio_net", "0000:00:03.0", 1000}},
	Disks: []Disk{{Model: "Tiny disk", Bus: sim.VirtioBlk, Size: 4 * gib}}, // the smallest that needs no hint
	Modes: both, Driver: "redfish", serial: "TINY00000000",
}

var dellR640 = Profile{
	Name: "dell-r640", Manufacturer: "Dell Inc.", Model: "PowerEdge R640",
	CPU: "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz", MHz: 2100, CPUs: 80, MemoryMiB: 384 << 10,
	NICs: []NIC{
		{"eno1np0", "0x14e4", "0x16d8", "bnxt_en", "0000:19:00.0", 10000},
		{"eno2np1", "0x14e4", "0x16d8", "bnxt_en", "0000:19:00.1", 10000},
		{"ens1f0", "0x8086", "0x158b", "i40e", "0000:3b:00.0", 25000},
		{"ens1f1", "0x8086", "0x158b", "i40e", "0000:3b:00.1", 25000},
	},
	Disks: []Disk{
		{"ATA", "MTFDDAV240TDU", sim.SATA, size240GB, false, 4096},
		{"TOSHIBA", "KPM5XRUG960G", SAS, size960GB, false, 4096},
		{"TOSHIBA", "KPM5XRUG960G", SAS, size960GB, false, 4096},
	},
	Modes: both, Driver: "redfish", POST: 110 * time.Second, Power: 4 * time.Second, BMC: 250 * time.Millisecond, HTTPBoot: true, serial: "XXXXXA0",
}

var hpeDL360 = Profile{
	Name: "hpe-dl360", Manufacturer: "HPE", Model: "ProLiant DL360 Gen10",
	CPU: "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz", MHz: 2300, CPUs: 64, MemoryMiB: 256 << 10,
	NICs: []NIC{
		{"ens1f0", "0x15b3", "0x1015", "mlx5_core", "0000:12:00.0", 25000},
		{"ens1f1", "0x15b3", "0x1015", "mlx5_core", "0000:12:00.1", 25000},
		{"eno1", "0x14e4", "0x1657", "tg3", "0000:02:00.0", 1000},
		{"eno2", "0x14e4", "0x1657", "tg3", "0000:02:00.1", 1000},
	},
	Disks: []Disk{
		{"HPE", "LOGICAL VOLUME", SAS, size480GB, false, 4096},
		{"HPE", "MO001920JWTBT", SAS, size1920GB, false, 4096},
		{"HPE", "MO001920JWTBT", SAS, size1920GB, false, 4096},
	},
	Modes: both, Driver: "redfish", POST: 150 * time.Second, Power: 5 * time.Second, BMC: 400 * time.Millisecond, HTTPBoot: true, serial: "CZ0000XXXX",
}

var supermicro = Profile{
	Name: "supermicro-1029p", Manufacturer: "Supermicro", Model: "SYS-1029P-WTR",
	CPU: "Intel(R) Xeon(R) Silver 4210 CPU @ 2.20GHz", MHz: 2200, CPUs: 40, MemoryMiB: 192 << 10,
	NICs: []NIC{
		{"eno1", "0x8086", "0x37d2", "i40e", "0000:1a:00.0", 10000},
		{"eno2", "0x8086", "0x37d2", "i40e", "0000:1a:00.1", 10000},
	},
	Disks: []Disk{
		{"ATA", "SAMSUNG MZ7LH480", sim.SATA, size480GB, false, 4096},
		{"ATA", "SAMSUNG MZ7LH480", sim.SATA, size480GB, false, 4096},
		{"ATA", "ST8000NM000A-2KE", sim.SATA, size8TB, true, 4096},
	},
	Modes: both, Driver: "redfish", POST: 75 * time.Second, Power: 3 * time.Second, BMC: 600 * time.Millisecond, serial: "A000000X0000000",
}

var lenovoSR630 = Profile{
	Name: "lenovo-sr630", Manufacturer: "Lenovo", Model: "ThinkSystem SR630",
	CPU: "Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz", MHz: 2600, CPUs: 48, MemoryMiB: 192 << 10,
	NICs: []NIC{
		{"ens2f0", "0x8086", "0x37d1", "i40e", "0000:5d:00.0", 1000},
		{"ens2f1", "0x8086", "0x37d1", "i40e", "0000:5d:00.1", 1000},
	},
	Disks: []Disk{
		{"ATA", "Micron_5300_MTFD", sim.SATA, size960GB, false, 4096},
		{"ATA", "Micron_5300_MTFD", sim.SATA, size960GB, false, 4096},
	},
	Modes: both, Driver: "redfish", POST: 130 * time.Second, Power: 4 * time.Second, BMC: 300 * time.Millisecond, HTTPBoot: true, serial: "J00XXXX0",
}

var amdNVMe = Profile{
	Name: "amd-nvme", Manufacturer: "GIGABYTE", Model: "R282-Z93-00",
	CPU: "AMD EPYC 7543 32-Core Processor", MHz: 2800, CPUs: 64, MemoryMiB: 512 << 10,
	NICs: []NIC{
		{"enp65s0f0np0", "0x15b3", "0x101d", "mlx5_core", "0000:41:00.0", 100000},
		{"enp65s0f1np1", "0x15b3", "0x101d", "mlx5_core", "0000:41:00.1", 100000},
	},
	Disks: []Disk{
		{"", "SAMSUNG MZQL21T9HCJR-00A07", sim.NVMe, size1920GB, false, 512},
		{"", "SAMSUNG MZQL21T9HCJR-00A07", sim.NVMe, size1920GB, false, 512},
	},
	Modes: uefiOnly, Driver: "redfish", POST: 95 * time.Second, Power: 4 * time.Second, BMC: 500 * time.Millisecond, HTTPBoot: true, ROMIsIPXE: true, serial: "GX0F00000A0000",
}

var edge = Profile{
	Name: "edge-emmc", Manufacturer: "Advantech", Model: "UNO-2484G",
	CPU: "Intel(R) Atom(TM) Processor E3950 @ 1.60GHz", MHz: 1600, CPUs: 4, MemoryMiB: 8 << 10,
	NICs: []NIC{
		{"enp1s0", "0x8086", "0x1533", "igb", "0000:01:00.0", 1000},
		{"enp2s0", "0x8086", "0x1533", "igb", "0000:02:00.0", 1000},
	},
	Disks: []Disk{{"", "DG4064", EMMC, 62_537_072_640, false, 512}},
	Modes: uefiOnly, Driver: "redfish", POST: 12 * time.Second, Power: time.Second, BMC: 150 * time.Millisecond, serial: "KSA0000000",
}

var oldIPMI = Profile{
	Name: "intel-s2600", Manufacturer: "Intel Corporation", Model: "S2600WTTR",
	CPU: "Intel(R) Xeon(R) CPU E5-2650 v4 @ 2.20GHz", MHz: 2200, CPUs: 48, MemoryMiB: 128 << 10,
	NICs: []NIC{
		{"eno1", "0x8086", "0x1528", "ixgbe", "0000:03:00.0", 10000},
		{"eno2", "0x8086", "0x1528", "ixgbe", "0000:03:00.1", 10000},
	},
	Disks: []Disk{
		{"ATA", "INTEL SSDSC2BB48", sim.SATA, size480GB, false, 4096},
		{"SEAGATE", "ST1200MM0088", SAS, 1_200_243_695_616, true, 512},
	},
	Modes: []string{sim.BIOS, sim.UEFI}, Driver: "ipmi", POST: 85 * time.Second, Power: 3 * time.Second, BMC: 100 * time.Millisecond, serial: "BQWL00000000",
}
