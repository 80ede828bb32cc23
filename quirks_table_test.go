package main

import "bessemer/bmc/sim/flaw"

func q(ids ...flaw.ID) []flaw.ID { return ids }

// Profiles for quirks that the tiny machine has nothing for.
const (
	disks = "dell-r640" // several disks and cards
	bios  = "bios"
)

// quirkTrials say what machine is tried with each quirk, and how that ends
// where it is not deployed and undeployed without ado.
var quirkTrials = []trial{
	{name: "nothing by Redfish"},
	{name: "nothing by IPMI", ipmi: true},

	{quirks: q("B-01"), more: 2},
	{quirks: q("B-01"), ipmi: true, more: 2},
	{quirks: q("B-02")},
	{quirks: q("B-03")},
	{quirks: q("B-04")},
	{quirks: q("B-04"), ipmi: true},
	{quirks: q("B-05")},
	{quirks: q("B-06")},
	{quirks: q("B-07")},
	{quirks: q("B-08")},
	{quirks: q("B-08"), ipmi: true},
	{quirks: q("B-09")},
	{quirks: q("B-09"), ipmi: true},
	{quirks: q("B-10")},
	{quirks: q("B-11")},
	{quirks: q("B-11"), ipmi: true},
	{quirks: q("B-12")},
	{quirks: q("B-12"), ipmi: true},
	{quirks: q("B-13")},
	{quirks: q("B-13"), ipmi: true},
	{quirks: q("B-14")},
	{quirks: q("B-16"), more: 2},
	{quirks: q("B-17")},
	{quirks: q("B-18")},
	{quirks: q("B-20")},
	{quirks: q("B-20"), ipmi: true},
	{quirks: q("B-21")},

	{quirks: q("R-01")},
	{quirks: q("R-02")},
	{quirks: q("R-03")},
	{quirks: q("R-04")},
	{quirks: q("R-05")},
	{quirks: q("R-06")},
	{quirks: q("R-07")},
	{quirks: q("R-08")},
	{quirks: q("R-09")},
	{quirks: q("R-10")},
	{quirks: q("R-11")},
	{
		name: "R-11 with a wrong password", quirks: q("R-11"), info: map[string]any{"redfish_password": "wrong"},
		ends: "enroll", says: []string{"correct user and password in driver_info"}, stays: true,
	},
	{quirks: q("R-12")},
	{quirks: q("R-13")},
	{quirks: q("R-14")},
	{quirks: q("R-15"), late: true},
	{quirks: q("R-18")},
	{quirks: q("R-21")},
	{quirks: q("R-22")},
	{quirks: q("R-24")},
	{quirks: q("R-28")},
	{
		name: "R-28 without a system's name", quirks: q("R-28"), info: map[string]any{"redfish_system_id": nil},
		ends: "enroll", says: []string{"redfish_system_id"}, stays: true,
	},

	{quirks: q("V-09")},

	{quirks: q("I-01"), ipmi: true},
	{quirks: q("I-02"), ipmi: true},
	{quirks: q("I-03"), ipmi: true},
	{quirks: q("I-04"), ipmi: true},
	{quirks: q("I-05"), ipmi: true},
	{quirks: q("I-06"), ipmi: true},
	{quirks: q("I-07"), ipmi: true},
	{quirks: q("I-09"), ipmi: true},
	{quirks: q("I-11"), ipmi: true},
	{quirks: q("I-12"), ipmi: true, ends: "enroll", says: []string{"IPMI over LAN", "the driver redfish"}, stays: true},

	{quirks: q("D-01")},
	{quirks: q("D-03")},
	{quirks: q("D-04")},
	{quirks: q("D-05")},
	{quirks: q("D-06")},
	{quirks: q("D-07")},
	{quirks: q("D-08")},
	{quirks: q("D-09"), profile: disks},
	{quirks: q("D-10"), mode: bios},
	{quirks: q("D-12"), mode: bios},
	{quirks: q("D-13")},
	{quirks: q("D-14"), mode: bios},
	{quirks: q("D-15")},
	{quirks: q("D-16")},
	{quirks: q("D-17"), mode: bios},
	{quirks: q("D-18")},
	{quirks: q("D-19")},
	{quirks: q("D-20"), mode: bios},
	{quirks: q("D-24"), mode: bios},
	{quirks: q("D-26"), mode: bios},
	{quirks: q("D-29")},
	{quirks: q("D-30"), mode: bios},

	{quirks: q("N-01")},
	{quirks: q("N-02")},
	{quirks: q("N-03"), profile: disks},
	{quirks: q("N-04")},
	{quirks: q("N-05")},

	{quirks: q("K-01")},
	{quirks: q("K-02")},
	{quirks: q("K-03"), image: tinyMBR},
	{name: "K-03 by a BIOS", quirks: q("K-03"), image: tinyMBR, mode: bios},
	{quirks: q("K-05"), profile: disks, hint: true},
	{quirks: q("K-07"), profile: disks, hint: true},
	{quirks: q("K-08")},
	{quirks: q("K-09"), ends: "clean failed", says: []string{"cluster file system"}, stays: true},
	{quirks: q("K-10")},
	{quirks: q("K-14")},
	{quirks: q("K-17"), profile: disks},
	{quirks: q("K-18"), ends: "deploy failed", says: []string{"no space left"}},
	{quirks: q("K-20"), hint: true},
	{quirks: q("K-23")},
	{quirks: q("K-25"), also: []string{"/dev/sdo"}},

	{quirks: q("U-04")},
	{quirks: q("U-06")},
	{quirks: q("U-07")},
	{name: "U-07 with an image for UEFI", quirks: q("U-07"), image: tinyUEFI, ends: "deploy failed", says: []string{"boot mode mismatch"}},
	{quirks: q("A-03")},
	{quirks: q("A-05")},
}

// vendorTrials are machines with all that is known of their maker's.
var vendorTrials = []trial{
	{name: "Dell", profile: "dell-r640", quirks: q("B-01", "B-06", "B-10", "B-14", "R-06", "R-11", "R-12", "R-13", "N-05"), more: 3},
	{name: "Dell with an older BIOS", profile: "dell-r640", quirks: q("B-10", "B-16", "R-06", "R-12", "R-13"), more: 3},
	{name: "HPE iLO", profile: "hpe-dl360", quirks: q("B-07", "B-20", "R-06", "R-13", "R-21", "R-22")},
	{name: "Supermicro", profile: "supermicro-1029p", quirks: q("B-01", "B-02", "B-05", "V-09"), more: 3},
	{name: "Supermicro by IPMI", profile: "supermicro-1029p", ipmi: true, quirks: q("B-01", "I-02", "I-09"), more: 3},
	{name: "Lenovo", profile: "lenovo-sr630", quirks: q("B-17", "B-18", "R-01")},
	{name: "AMI", profile: "amd-nvme", quirks: q("B-03", "B-06", "R-02")},
	{name: "Intel", profile: "intel-s2600", mode: "uefi", quirks: q("R-04")},
	{name: "Intel by IPMI", profile: "intel-s2600", ipmi: true, mode: bios, quirks: q("I-09")},
	{name: "what many do", quirks: q("B-04", "B-08", "B-09", "R-07", "R-10", "R-14", "N-01", "N-02", "K-10", "K-14")},
	{name: "what many do by IPMI", ipmi: true, quirks: q("B-04", "B-08", "B-09", "I-01", "I-03", "I-04", "I-05", "I-07", "N-01", "N-02", "K-10")},
	{name: "a difficult network", quirks: q("D-05", "D-06", "D-07", "D-26", "D-29")},
}

// selfStarts are how often a ramdisk may restart by itself, all two seconds at
// the rack's pace, before the appliance has made sure that its agent has gone.
const selfStarts = 12

// faultTrials are machines that something befalls during a deploy.
var faultTrials = []trial{
	{fault: "bmc-hang:count=1"},
	{fault: "bmc-hang:count=3", ipmi: true},
	{fault: "bmc-down:count=3"},
	{fault: "bmc-down:count=3", ipmi: true},
	{fault: "bmc-500:count=3"},
	{fault: "bmc-500:count=2", ipmi: true},
	{fault: "bmc-500", ipmi: true, ends: "deploy failed", says: []string{"Get Chassis Status", "0xff"}},
	{fault: "bmc-503:count=3"},
	{fault: "bmc-503:count=2", ipmi: true},
	{fault: "bmc-slow:count=4,delay=1s"},
	{fault: "bmc-slow:count=4,delay=1s", ipmi: true},
	{fault: "bmc-sessions:count=2"},
	{fault: "bmc-sessions:count=2", ipmi: true},
	{fault: "bmc-password:count=1"},
	{fault: "bmc-password:count=1", ipmi: true},
	{fault: "bmc-password", ends: "deploy failed", says: []string{"correct user and password in driver_info"}, stays: true},
	{fault: "packet-loss:rate=0.02,count=12", more: 1},
	{fault: "packet-delay:count=10,delay=1s", more: 1},
	{fault: "image-stall:at=300K,count=1"},
	{fault: "image-cut:at=300K,count=2"},
	{fault: "image-corrupt:at=600K,count=1", ends: "deploy failed", says: []string{"write-image", "checksum mismatch"}},
	{fault: "kernel-cut:count=2", more: 1},
	{fault: "agent-crash:count=1", more: selfStarts},
	{fault: "disk-error:at=600K,count=1", ends: "deploy failed", says: []string{"write-image", "input/output error"}},
	{fault: "power-loss:at=600K,count=1", more: selfStarts},
	{fault: "clock-jump:delay=-3h"},
	{fault: "no-post:count=1", more: 1},
}
