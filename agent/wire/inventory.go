package wire

// Inventory is the hardware of a machine, in Ironic-Python-Agent's shape.
type Inventory struct {
	Interfaces   []Interface  `json:"interfaces"`
	CPU          CPU          `json:"cpu"`
	Disks        []Disk       `json:"disks"`
	Memory       Memory       `json:"memory"`
	BMCAddress   string       `json:"bmc_address,omitempty"`
	BMCV6Address string       `json:"bmc_v6address,omitempty"`
	SystemVendor SystemVendor `json:"system_vendor"`
	Boot         BootInfo     `json:"boot"`
	Hostname     string       `json:"hostname"`
}

// Interface is a network card.
type Interface struct {
	Name        string `json:"name"`
	MACAddress  string `json:"mac_address"`
	IPv4Address string `json:"ipv4_address,omitempty"`
	IPv6Address string `json:"ipv6_address,omitempty"`
	HasCarrier  bool   `json:"has_carrier"`
	Vendor      string `json:"vendor,omitempty"`
	Product     string `json:"product,omitempty"`
	BIOSDevName string `json:"biosdevname,omitempty"`
	SpeedMbps   int    `json:"speed_mbps,omitempty"`
	PCIAddress  string `json:"pci_address,omitempty"`
	Driver      string `json:"driver,omitempty"`
	LLDP        any    `json:"lldp,omitempty"`
}

// CPU is the processors.
type CPU struct {
	ModelName    string   `json:"model_name"`
	Frequency    string   `json:"frequency,omitempty"` // MHz
	Count        int      `json:"count"`
	Architecture string   `json:"architecture"` // x86_64, aarch64
	Flags        []string `json:"flags,omitempty"`
}

// Memory sizes: Total in bytes, as the kernel sees it; PhysicalMB as fitted.
type Memory struct {
	Total      int64 `json:"total"`
	PhysicalMB int64 `json:"physical_mb"`
}

// SystemVendor is from DMI.
type SystemVendor struct {
	ProductName  string `json:"product_name"`
	SerialNumber string `json:"serial_number"`
	Manufacturer string `json:"manufacturer"`
	UUID         string `json:"uuid,omitempty"` // ours
}

// BootInfo is how the ramdisk was booted.
type BootInfo struct {
	CurrentBootMode string `json:"current_boot_mode"` // uefi or bios
	PXEInterface    string `json:"pxe_interface"`     // MAC
	SecureBoot      *bool  `json:"secure_boot,omitempty"`
}

// Disk is a block device that could be a root device; Size in bytes.
type Disk struct {
	Name               string `json:"name"` // /dev/sda
	Model              string `json:"model"`
	Size               int64  `json:"size"`
	Rotational         bool   `json:"rotational"`
	WWN                string `json:"wwn,omitempty"`
	WWNWithExtension   string `json:"wwn_with_extension,omitempty"`
	WWNVendorExtension string `json:"wwn_vendor_extension,omitempty"`
	Serial             string `json:"serial,omitempty"`
	Vendor             string `json:"vendor,omitempty"`
	HCTL               string `json:"hctl,omitempty"`
	ByPath             string `json:"by_path,omitempty"` // /dev/disk/by-path/...
	Transport          string `json:"tran,omitempty"`    // nvme, sata, virtio, usb, sas, ...
	LogicalSectorSize  int    `json:"logical_sectors,omitempty"`
	PhysicalSectorSize int    `json:"physical_sectors,omitempty"`
	ReadOnly           bool   `json:"read_only,omitempty"`     // ours
	Removable          bool   `json:"removable,omitempty"`     // ours
	VirtualMedia       bool   `json:"virtual_media,omitempty"` // ours: a BMC's virtual CD or floppy
}
