package flaw

var bootRows = []Row{
	{
		ID: "B-01", Who: "Dell iDRAC9, several Supermicro", Does: "every other boot device for one boot is accepted, shown and not heeded: the disk boots",
		Want: "notice that no ramdisk calls, set it again and start again, a few times, then fail with what was seen last", Status: Flag,
	},
	{
		ID: "B-02", Who: "Supermicro X11 and later", Does: "a change of the boot target alone makes the override one for the next boot",
		Want: "always send target and duration together", Status: Flag,
	},
	{
		ID: "B-03", Who: "AMI, ASRock Rack", Does: "a Boot object without all of its three properties, or with null, is refused",
		Want: "send duration, target and mode, all spelled out", Status: Flag,
	},
	{
		ID: "B-04", Who: "several", Does: "a lasting override is refused, though it is listed",
		Want: "set it for the next boot, note that, and set it again before each start", Status: Flag,
	},
	{
		ID: "B-05", Who: "Supermicro X10SRM-TF", Does: "there is no boot mode in the Boot object, and sending one is refused",
		Want: "leave the mode out, and do not ask for it back", Status: Flag,
	},
	{
		ID: "B-06", Who: "Nokia, Dell iDRAC10, ASRock", Does: "the system's Boot is read-only; only its settings resource can be changed, and shows the change",
		Want: "find the resource that has the property, write and read it there, else the other", Status: Flag,
	},
	{
		ID: "B-07", Who: "HPE iLO", Does: "clearing the override with target None is refused",
		Want: "keep the target and disable the override", Status: Flag,
	},
	{
		ID: "B-08", Who: "many", Does: "the power state is read every few seconds only, and is an old one in between",
		Want: "believe the state, not the answer to the action, and read until it has changed", Status: Flag,
	},
	{
		ID: "B-09", Who: "many", Does: "a reset into the state that the machine is in already is refused with 409",
		Want: "read the state again; what is so already is a success", Status: Flag,
	},
	{
		ID: "B-10", Who: "Dell 14G, iDRAC8 2.60", Does: "there is no restart of any kind, and what there is stands in the action's own description only",
		Want: "choose among what is allowed; a restart is off, then on", Status: Flag,
	},
	{
		ID: "B-11", Who: "systems without ACPI", Does: "being asked to shut down, or to restart, has no effect",
		Want: "give up after the time that was named; the hard way off and on again works and is verified", Status: Flag,
	},
	{
		ID: "B-12", Who: "faulty firmware", Does: "a machine that its operating system turned off does not turn on before the controller has cut its power",
		Want: "cut the power of the machine that is off, then turn it on", Status: Flag,
	},
	{
		ID: "B-13", Who: "some", Does: "a forced restart is accepted and does nothing",
		Want: "restart by off and on, each verified by its state, and wait for the agent of the new boot", Status: Flag,
	},
	{
		ID: "B-14", Who: "Dell and others", Does: "a change of the boot mode shows only after the next start",
		Want: "note it and go on; it is an error when the mode is still another one after a start", Status: Flag,
	},
	{
		ID: "B-15", Who: "some", Does: "the SecureBoot resource answers 500 while a change of it waits",
		Want: "repeat its reads for longer than others", Status: Later, Note: "Secure boot is not managed yet; the simulated controller has the resource.",
	},
	{
		ID: "B-16", Who: "Dell R640 with BIOS 1.6.13", Does: "in UEFI mode a network boot for one boot is not heeded, unless it names the network card's path",
		Want: "when the ramdisk did not call, set the card's path as the target, another card's each time", Status: Flag,
	},
	{
		ID: "B-17", Who: "Lenovo", Does: "setting the boot device takes the disks out of the boot order",
		Want: "compare the order before and after, and put it back or say what is missing", Status: Flag,
	},
	{
		ID: "B-18", Who: "Lenovo XCC", Does: "a system does not exist before the collection of systems was read",
		Want: "on 404 read the collection, then ask again", Status: Flag,
	},
	{
		ID: "B-19", Who: "any", Does: "an action on the power disturbs an update of firmware that is under way",
		Want: "leave the power alone meanwhile", Status: Later, Note: "Bessemer updates no firmware yet, and so starts nothing that could be disturbed.",
	},
	{
		ID: "B-20", Who: "HPE iLO", Does: "turning on is answered with an error, as nothing is found to boot, and the machine is on",
		Want: "let the state decide, and note the error", Status: Flag,
	},
	{
		ID: "B-21", Who: "any", Does: "between on and off the state is PoweringOn, PoweringOff, Paused or null",
		Want: "take all of these for a change under way, and read on", Status: Flag,
	},
	{
		ID: "B-22", Who: "servers with much memory", Does: "a start stays in its self-test for ten minutes",
		Want: "a time-out for the ramdisk's call that can be set per node: driver_info deploy_callback_timeout", Status: Tested,
		Note: "TestASlowStart in server/conductor",
	},
}
