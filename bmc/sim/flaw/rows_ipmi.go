package flaw

var ipmiRows = []Row{
	{
		ID: "I-01", Who: "many", Does: "a boot device set or cleared without the EFI bit turns a UEFI machine to legacy mode",
		Want: "say the mode with every boot device", Status: Flag,
	},
	{
		ID: "I-02", Who: "Supermicro", Does: "under UEFI the selector for a disk does not boot it",
		Want: "recognise the maker and use the selector of the remote disk", Status: Flag,
	},
	{
		ID: "I-03", Who: "all by the specification; some more", Does: "the boot device is forgotten after 60 s; some do not start the machine when told to keep it",
		Want: "tell it to keep the device; withdraw that where it refuses to start; set the device again before a late start", Status: Flag,
		Note: "the flag refuses the start; forgetting after 60 s is what every simulated controller does (TestLateStart in bmc/ipmi)",
	},
	{
		ID: "I-04", Who: "some", Does: "turning off what is off is an error",
		Want: "do not ask for what is already so", Status: Flag,
	},
	{
		ID: "I-05", Who: "some", Does: "Get Channel Cipher Suites is unknown, and a suite that is lacking is called an invalid role",
		Want: "try 17, then 3, without asking for the list", Status: Flag,
	},
	{
		ID: "I-06", Who: "many", Does: "a command that comes too soon after the last one fails",
		Want: "ask again with growing pauses, and keep that distance; a least interval by setting", Status: Flag,
	},
	{
		ID: "I-07", Who: "all", Does: "only 16 bytes of a password are compared; digits alone, odd characters or none are mangled by clients",
		Want: "pass the bytes as they are; log in by the 16 that are kept; explain the limits", Status: Flag,
		Note: "bytes and limits: TestPasswordsAreBytes in bmc/sim/ipmi, TestSettings in bmc/ipmi",
	},
	{
		ID: "I-08", Who: "dead controllers", Does: "a client hangs for minutes",
		Want: "every packet and every call has a deadline", Status: Tested,
		Note: "a dead controller is the fault bmc-hang: TestFaults in bmc/sim/ipmi, \"silent controller\" of bmc/bmctest",
	},
	{
		ID: "I-09", Who: "Intel, Sun, Supermicro and others", Does: "says that it lacks IPMI 2.0 though it has it, says no privilege when a session is opened, grants OPERATOR at most; has a key of its own (Kg)",
		Want: "try RMCP+ nevertheless; ask for OPERATOR where more is refused; Kg by setting", Status: Flag,
		Note: "Kg: TestDriver in bmc/sim/ipmi",
	},
	{
		ID: "I-10", Who: "all", Does: "a serial console that was left open refuses the next client",
		Want: "deactivate it first", Status: Later, Note: "there is no serial console over IPMI yet",
	},
	{
		ID: "I-11", Who: "many", Does: "the LAN channel is not 1, and who names 1 gets no answer",
		Want: "address the channel that the packet came by", Status: Flag,
		Note: "the search for the controller's address from within the machine comes with inspection",
	},
	{
		ID: "I-12", Who: "Fujitsu iRMC S6", Does: "IPMI over LAN is switched off until somebody switches it on",
		Want: "say so, and name Redfish as the other way", Status: Flag,
	},
	{
		ID: "I-13", Who: "Dell R420, Supermicro", Does: "setting up a user fails unless it is done in one order",
		Want: "password before enabling, privilege before LAN access", Status: Later, Note: "Bessemer sets up no users on controllers yet",
	},
	{
		ID: "I-14", Who: "clients", Does: `an option given as the text "False" is taken for true`,
		Want: "read booleans strictly", Status: Tested, Note: "TestForceBootDevice in bmc/ipmi",
	},
}
