package ramdisk

// The drivers of the default ramdisk, by kernel module name. A name that a
// kernel does not have, or has built in, is no error: the same list serves
// Debian's generic and cloud kernels, and others'.
//
// Wired Ethernet only: a machine is not provisioned over wireless. No graphics
// drivers: the console is the firmware's framebuffer or a serial line, and
// nomodeset is not needed then (quirk D-30).
var networkDrivers = []string{
	"af_packet", "ipv6",
	// Virtual machines.
	"virtio_net", "vmxnet3", "xen_netfront", "hv_netvsc", "ena", "gve", "mana",
	// Intel.
	"e100", "e1000", "e1000e", "igb", "igbvf", "igc", "ixgb", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "idpf", "fm10k",
	// Broadcom.
	"b44", "bnx2", "bnx2x", "bnxt_en", "tg3",
	// Mellanox, Marvell/QLogic, Chelsio, Emulex, Solarflare, AMD/Pensando, Cisco, Cavium.
	"mlx4_core", "mlx4_en", "mlx5_core", "mlxfw",
	"netxen_nic", "qede", "qed", "qla3xxx", "qlcnic", "bna",
	"cxgb4", "cxgb4vf", "be2net", "sfc", "sfc_falcon", "sfc_siena",
	"ionic", "amd_xgbe", "pcnet32", "amd8111e", "pds_core", "enic", "nicpf", "nicvf", "thunder_bgx", "nfp", "hinic", "fun_core", "funeth",
	// Boards of desktops and small servers.
	"r8169", "8139too", "8139cp", "alx", "atl1", "atl1c", "atl1e", "atl2", "atlantic", "sky2", "skge", "forcedeth", "jme", "tulip", "de2104x",
	"via_rhine", "via_velocity", "sis900", "sis190", "3c59x", "ne2k_pci", "natsemi", "ns83820", "epic100", "tlan", "macb", "macb_pci",
	"stmmac", "stmmac_pci", "dwmac_intel", "dwmac_generic", "bcmgenet", "mvneta", "mvpp2", "fec", "hns3", "hclge", "hns_enet_drv", "xgene_enet", "realtek",
	// PHYs that the above ask for by name.
	"broadcom", "marvell", "marvell10g", "aquantia", "micrel", "at803x", "smsc", "bcm7xxx", "intel_xway", "dp83867",
	// USB adapters.
	"r8152", "r8153_ecm", "asix", "ax88179_178a", "cdc_ether", "cdc_ncm", "smsc75xx", "smsc95xx", "lan78xx",
}

var storageDrivers = []string{
	"sd_mod", "sr_mod", "sg",
	// Virtual machines.
	"virtio_blk", "virtio_scsi", "vmw_pvscsi", "xen_blkfront", "hv_storvsc",
	// NVMe, SATA, IDE, eMMC.
	"nvme", "ahci", "ahci_platform", "ata_piix", "ata_generic", "pata_acpi", "pata_amd", "pata_atiixp", "pata_jmicron", "pata_marvell",
	"pata_sis", "pata_via", "sata_mv", "sata_nv", "sata_promise", "sata_sil", "sata_sil24", "sata_sis", "sata_svw", "sata_uli", "sata_via", "sata_vsc", "pdc_adma",
	"mmc_block", "sdhci", "sdhci_pci", "sdhci_acpi",
	// HBAs and RAID controllers.
	"mpt3sas", "mptspi", "mptsas", "mptfc", "mpi3mr", "megaraid_sas", "megaraid_mbox", "megaraid_mm", "hpsa", "cciss", "smartpqi", "aacraid", "arcmsr",
	"3w_9xxx", "3w_sas", "3w_xxxx", "aic79xx", "aic7xxx", "sym53c8xx", "isci", "mvsas", "pm80xx", "esas2r", "hptiop", "ips", "stex", "mvumi",
	"initio", "am53c974", "BusLogic", "gdth", "vmd", "hisi_sas_v3_hw",
	// Fibre Channel: the two common families.
	"qla2xxx", "lpfc",
	// USB, for virtual media of BMCs and for keyboards at the console.
	"usb_storage", "uas", "xhci_pci", "xhci_hcd", "ehci_pci", "ehci_hcd", "ohci_pci", "ohci_hcd", "uhci_hcd", "usbhid", "hid_generic",
}

var otherDrivers = []string{
	// The EFI system partition, config drives and virtual media.
	"vfat", "fat", "nls_cp437", "nls_iso8859_1", "nls_utf8", "nls_ascii", "isofs", "cdrom", "efivarfs", "efi_pstore", "efivars",
	// Virtual machines.
	"virtio_pci", "virtio_mmio", "virtio_rng", "virtio_console", "hv_vmbus", "hv_utils",
	// Random numbers, the BMC, the power button, sensors that nobody else keeps.
	"intel_rng", "amd_rng", "via_rng", "tpm_tis", "tpm_crb", "ipmi_si", "ipmi_devintf", "ipmi_msghandler", "ipmi_ssif", "button", "evdev",
	"rtc_cmos", "rtc_efi", "crc32c_intel", "crc32c_generic", "crct10dif_generic",
}

// defaultModules is the whole list.
func defaultModules() []string {
	var all []string
	for _, l := range [][]string{networkDrivers, storageDrivers, otherDrivers} {
		all = append(all, l...)
	}
	return all
}
