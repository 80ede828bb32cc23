package flaw

const (
	noRAID  = "Bessemer makes no RAID yet"
	noErase = "Bessemer erases by overwriting; the disks' own commands for it come later"
)

var diskRows = []Row{
	{
		ID: "K-01", Who: "any disk larger than its image", Does: "GPT's backup stays where the image ends; the firmware insists on the last sector of a disk of odd size",
		Want: "move it to the end, read both copies back", Status: Flag,
	},
	{
		ID: "K-02", Who: "disks with sectors of 4096 bytes", Does: "no Linux mounts ISO 9660 from it",
		Want: "put the config drive's files into a FAT file system; say so if the image is for small sectors", Status: Flag,
	},
	{
		ID: "K-03", Who: "disks over 2 TiB with an MBR", Does: "an MBR reaches no further than 2 TiB, the config drive belongs at the end",
		Want: "put it below 2 TiB", Status: Flag,
	},
	{
		ID: "K-04", Who: "partitioning tools", Does: "the disk's identifier is written anew, and the image boots no more",
		Want: "touch nothing but the entry that is added", Status: Tested,
		Note: "TestConfigDriveOnMBR in agent/disk; the tiny image with an MBR refuses to start under another identifier",
	},
	{
		ID: "K-05", Who: "RAID controllers, NVMe", Does: "the disk is seen seconds after the others",
		Want: "wait for the one that is asked for, before writing and before wiping", Status: Flag,
	},
	{
		ID: "K-06", Who: "agents that run for long", Does: "the root device hint was changed after the agent had started",
		Want: "each command brings the node as it is now", Status: Tested, Note: "TestHintsOfTheInstanceComeFirst in agent",
	},
	{
		ID: "K-07", Who: "disks with several paths", Does: "each path shows as a disk, and one of them fails all reads",
		Want: "see that they are one disk, use a path that works, leave the other", Status: Flag,
	},
	{
		ID: "K-08", Who: "disks of an old array or LVM", Does: "its marks at the disk's ends outlive the image, and the new system takes the disk for a part of the array",
		Want: "clear both ends before writing, all marks when wiping; put no array together", Status: Flag,
	},
	{
		ID: "K-09", Who: "shared LUNs", Does: "the disk carries VMFS, GFS2 or GPFS that other machines use now",
		Want: "refuse to wipe it", Status: Flag, Note: "the cleaning fails, and says why",
	},
	{
		ID: "K-10", Who: "any", Does: "write-protected, empty, floppy and memory disks are among the disks",
		Want: "never the root device; wiping metadata leaves them out, erasing a write-protected one fails", Status: Flag,
	},
	{
		ID: "K-11", Who: "ATA disks", Does: "secure erase is frozen, locked by an earlier try, or swallowed by a controller",
		Want: "unlock, or overwrite", Status: Later, Note: noErase,
	},
	{
		ID: "K-12", Who: "NVMe disks", Does: "format and sanitize are lacking, or do half of the work",
		Want: "the next way, and a look at the result", Status: Later, Note: noErase,
	},
	{
		ID: "K-13", Who: "NVMe, eMMC, device mapper", Does: "names of partitions are formed differently",
		Want: "one rule for it", Status: Tested, Note: "no name of a partition is formed: the agent writes at offsets of the whole disk (TestWrite in agent/image)",
	},
	{
		ID: "K-14", Who: "udev", Does: "it looks into a disk that was touched, which is busy then",
		Want: "try again for a while, then say who may hold it", Status: Flag,
	},
	{
		ID: "K-15", Who: "machines under load", Does: "the UUID of a partition is told in place of the file system's",
		Want: "ask again", Status: Tested, Note: "nobody is asked: the table is read from the disk (TestBoot in bmc/sim/tinyos follows the entry that was made)",
	},
	{
		ID: "K-16", Who: "operators", Does: "hints with operators, blanks in serial numbers, three kinds of WWN",
		Want: "all of Ironic's operators", Status: Tested, Note: "TestSelect in agent/disk",
	},
	{
		ID: "K-17", Who: "machines with equal disks", Does: "two disks of one size are listed in another order at each start",
		Want: "the first by name, and say why", Status: Flag,
	},
	{
		ID: "K-18", Who: "disks that hold less than they say", Does: "no space is left in the middle of the image",
		Want: "fail at once with the sizes; no other mirror, no second try", Status: Flag,
		Note: "the deploy fails, and says why; an image larger than the disk says: TestImageLargerThanTheDisk in agent",
	},
	{
		ID: "K-19", Who: "small machines", Does: "a raw image is larger than the memory",
		Want: "write it while it arrives", Status: Tested, Note: "TestMemory in agent/image",
	},
	{
		ID: "K-20", Who: "SCSI and NVMe", Does: "names change places at each start, links by path are missing",
		Want: "hints by serial number or WWN find the same disk", Status: Flag,
	},
	{
		ID: "K-21", Who: "RAID of the chipset", Does: "the array is missing from the disks, its members are there",
		Want: "show the array in place of its members", Status: Later, Note: noRAID,
	},
	{
		ID: "K-22", Who: "hybrid images", Does: "one image is a disk and an ISO",
		Want: "take it", Status: Tested, Note: "TestClaims in agent/image",
	},
	{
		ID: "K-23", Who: "disks that were not cleaned", Does: "the backup of the old GPT contradicts the new table",
		Want: "clear both ends before writing", Status: Flag,
	},
	{
		ID: "K-24", Who: "RAID", Does: "the root device hint stays when the array is gone",
		Want: "remove it with the array", Status: Later, Note: noRAID,
	},
	{
		ID: "K-25", Who: "machines that served before", Does: "another disk still has a config drive, and the new instance takes the former one's name",
		Want: "replace an old one on the root disk, remove those on others", Status: Flag,
	},
	{
		ID: "K-26", Who: "software RAID", Does: "names of arrays break the reading of its state",
		Want: "read the form that is for programs", Status: Later, Note: noRAID,
	},
}
