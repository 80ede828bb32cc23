package flaw

var agentRows = []Row{
	{
		ID: "U-01", Who: "Lenovo", Does: "changing the boot order in the NVRAM and at the controller stops the next start with a question",
		Want: "change only one of them: where the agent has made a boot entry, the controller is not told of the disk", Status: Tested,
		Note: "TestOneBootChangeOnLenovo in server/conductor; a simulated machine does not stop there",
	},
	{
		ID: "U-02", Who: "images with an MBR", Does: "the EFI system partition is a FAT one that is only flagged for booting",
		Want: "take it", Status: Tested, Note: "TestESPOfAnMBR in agent/disk",
	},
	{
		ID: "U-03", Who: "aarch64", Does: "loaders have other names",
		Want: "names by the architecture", Status: Tested, Note: "TestInstallBootloader in agent",
	},
	{
		ID: "U-04", Who: "any", Does: "the NVRAM forgets the boot entry",
		Want: "the loader where the firmware finds it by itself, and say when there is none", Status: Flag,
	},
	{
		ID: "U-05", Who: "distributions", Does: "BOOT.CSV without a mark of its encoding; several of them",
		Want: "read all encodings, take the one for the architecture", Status: Tested, Note: "TestParseBootCSV in agent",
	},
	{
		ID: "U-06", Who: "any", Does: "the NVRAM is full or cannot be written",
		Want: "go on if the firmware finds a loader by itself, else say so", Status: Flag,
	},
	{
		ID: "U-07", Who: "any", Does: "the machine boots in the other mode than it was told",
		Want: "an image for both boots; for another, name the mismatch before the restart", Status: Flag,
	},
	{
		ID: "A-01", Who: "hundreds of agents", Does: "all ask again at the same moment",
		Want: "pauses of 70 to 120 %", Status: Tested, Note: "TestPauses in agent",
	},
	{
		ID: "A-02", Who: "busy nodes", Does: "lookups and heartbeats pile up at a lock",
		Want: "refuse at once; the agent waits", Status: Tested, Note: "TestHeartbeatsRetryWhenTheNodeIsLocked in agent",
	},
	{
		ID: "A-03", Who: "any", Does: "the machine's clock is hours ahead, and its certificate not yet valid",
		Want: "valid from an hour before the earlier of the two clocks", Status: Flag,
		Note: "setting the clock by the server: TestClockOffset in agent/boot; setting the hardware clock: not done",
	},
	{
		ID: "A-04", Who: "any", Does: "the cards show link-local addresses only",
		Want: "tell the address that has reached the server", Status: Tested,
		Note: "TestQuirks in bmc/sim/hardware; the agent looks at no address of a card, so that the flag changes nothing",
	},
	{
		ID: "A-05", Who: "any", Does: "a download stands still, and no connection ends",
		Want: "give up waiting, go on where it stopped", Status: Flag,
	},
	{
		ID: "A-06", Who: "any", Does: "a checksum does not match; a server answers 4xx",
		Want: "a second try only if the file has changed, none after 4xx", Status: Tested,
		Note: "TestSecondTryAfterAChange and TestNoSecondTryOfTheSameFile in agent",
	},
	{
		ID: "A-07", Who: "rebuilds", Does: "the old config drive is used; invalid ones are taken",
		Want: "refuse them at the API; the newest holds", Status: Tested, Note: "TestConfigDriveFromImage and TestConfigDriveReachesTheDisk in server/conductor",
	},
	{
		ID: "A-08", Who: "servers that are renamed", Does: "own locks look like another's",
		Want: "who holds a node does not hang on a host's name", Status: Tested,
		Note: "runs are found by number and step, no name is written down (TestKilledAfterEveryStep in server/conductor)",
	},
	{
		ID: "A-09", Who: "servers under load", Does: "one thinks that it is dead, and takes its nodes from itself",
		Want: "leases by a clock that does not jump", Status: Later, Note: "one server has all nodes; several come later",
	},
	{
		ID: "A-10", Who: "any", Does: "an old error stands at a node that is well again",
		Want: "clear it, keep it in the history", Status: Tested, Note: "TestPowerFaultComesAndGoes in server/conductor",
	},
	{
		ID: "A-11", Who: "restarts", Does: "nodes in the middle of cleaning or deleting stay there for ever",
		Want: "each unfinished run goes on at its step", Status: Tested, Note: "TestKilledAfterEveryStep in server/conductor",
	},
	{
		ID: "A-12", Who: "periodic tasks", Does: "two go on with one step, and the next is left out",
		Want: "one run for a node, one owner for a run", Status: Tested, Note: "TestKilledAfterEveryStep in server/conductor",
	},
}
