package flaw

var netbootRows = []Row{
	{
		ID: "D-01", Who: "UEFI firmware",
		Does: "announces its architecture in option 93 under many numbers; x64 comes as 7 and as 9",
		Want: "a table of all of them; a machine of an unknown kind gets an address, no boot file, and a line in the log", Status: Flag,
	},
	{
		ID: "D-02", Who: "Raspberry Pi 4 and 5",
		Does: "its boot ROM calls itself an x86 BIOS",
		Want: "is known by its MAC and gets no x86 boot program", Status: Tested,
		Note: "pxe/dhcp TestRaspberryPiSaysBIOS; its own firmware files are not served, so it cannot be deployed and a flag would only break a machine",
	},
	{
		ID: "D-03", Who: "UEFI HTTP boot",
		Does: "drops offers that do not have class HTTPClient and a URL",
		Want: "answers with its class and the boot program's URL", Status: Flag,
	},
	{
		ID: "D-04", Who: "Lenovo HR330A and other ARM machines",
		Does: "passes over the boot file of an answer whose class is PXEClient, and looks for option 43",
		Want: "full answers to PXE ROMs have no class", Status: Flag,
	},
	{
		ID: "D-05", Who: "iPXE",
		Does: "calls itself PXEClient as its ROM did, and its first request may lack the architecture",
		Want: "is known by its user class or option 175, and gets the script instead of itself again", Status: Flag,
	},
	{
		ID: "D-06", Who: "iPXE from 2025 on",
		Does: "looks for autoexec.ipxe by TFTP in two places before it does anything, and stops at odd answers",
		Want: "a plain file-not-found", Status: Flag,
	},
	{
		ID: "D-07", Who: "switches with spanning tree",
		Does: "forward nothing for 30 to 50 seconds after each link-up, and iPXE, which takes the link down, gives up after 10",
		Want: "the script in the boot program asks for 100 seconds; the agent waits at least 60", Status: Flag,
	},
	{
		ID: "D-08", Who: "switches with LACP",
		Does: "hear iPXE answer once and then no more, and block the port for 90 seconds while files are loaded",
		Want: "the boot script and the ramdisk are fetched again for longer than that", Status: Flag,
	},
	{
		ID: "D-09", Who: "machines with several network cards",
		Does: "iPXE's net0 is not the card that the firmware booted from",
		Want: "the card with an address is used, and BOOTIF names it to the ramdisk", Status: Flag,
	},
	{
		ID: "D-10", Who: "ramdisks made by dracut",
		Does: "have no network when both ip= and BOOTIF= are given",
		Want: "ip= is never given", Status: Flag,
	},
	{
		ID: "D-11", Who: "iPXE scripts",
		Does: "that try for ever are a flood to the server",
		Want: "seven tries with growing pauses, then a reboot", Status: Tested,
		Note: "pxe/httpd TestScriptsEnd and bmc/sim/firmware TestNoRamdisk: it is our script's doing, not the machine's",
	},
	{
		ID: "D-12", Who: "old iPXE in the ROM of a card",
		Does: "lacks newer commands such as inc, and does not know its architecture",
		Want: "served scripts keep to commands that every iPXE has", Status: Flag,
	},
	{
		ID: "D-13", Who: "shim",
		Does: "knows no TFTP options, so blocks of 512 bytes, and looks for the server in the fixed field alone",
		Want: "next-server is filled in beside option 66, and slow transfers are served", Status: Flag,
		Note: "a signed second stage from the same place is the operator's to add",
	},
	{
		ID: "D-14", Who: "PXE ROMs",
		Does: "drop answers from another address than the one they asked",
		Want: "answers come from where the request went", Status: Flag,
	},
	{
		ID: "D-15", Who: "EDK2 in QEMU and others",
		Does: "asks for blocks larger than a frame, and cannot take the fragments",
		Want: "blocks are at most 1468 bytes", Status: Flag,
	},
	{
		ID: "D-16", Who: "EFI PXE",
		Does: "takes an option that it did not ask for in an OACK for an error",
		Want: "nothing is acknowledged but what was asked", Status: Flag,
	},
	{
		ID: "D-17", Who: "odd TFTP clients",
		Does: "acknowledge an ERROR packet",
		Want: "it is passed over, and later transfers work", Status: Flag,
	},
	{
		ID: "D-18", Who: "odd TFTP clients",
		Does: "write option names in capitals",
		Want: "the transfer works, with blocks of 512 bytes at worst", Status: Flag,
	},
	{
		ID: "D-19", Who: "EDK2's HTTP boot, shim",
		Does: "needs HTTP/1.1, HEAD and Content-Length, and takes nothing chunked",
		Want: "boot programs are served with their length and answer HEAD", Status: Flag,
	},
	{
		ID: "D-20", Who: "some PXE ROMs",
		Does: "send DHCP packets without the END option",
		Want: "they are read all the same", Status: Flag,
	},
	{
		ID: "D-21", Who: "GRUB",
		Does: "looks for its configuration under different names from version to version",
		Want: "all of them are served", Status: Later,
		Note: "GRUB is not served: machines boot iPXE",
	},
	{
		ID: "D-22", Who: "Broadcom NetXtreme, Mellanox",
		Does: "iPXE's driver hangs on large files, or at EAPOL frames",
		Want: "a build with the fixes is offered", Status: Later,
		Note: "needs builds of iPXE and the cards; the operator's builds are taken from the data directory's ipxe/",
	},
	{
		ID: "D-23", Who: "UEFI with iPXE",
		Does: "boots over the network once more after the deploy, and would boot the ramdisk again",
		Want: "what is booted is decided from the node's state each time it asks", Status: Tested,
		Note: "bmc/sim/firmware TestBootAnswerFollowsState; that firmware goes to the network first is the boot order's doing",
	},
	{
		ID: "D-24", Who: "BIOS",
		Does: "starting the disk from iPXE fails",
		Want: "iPXE ends, with an error, and the firmware goes on to its next device", Status: Flag,
		Note: "after an exit with success the built-in BIOS program ends at its prompt, as it does on real firmware",
	},
	{
		ID: "D-25", Who: "DHCPv6 clients",
		Does: "firmware, iPXE and ramdisk ask for addresses under different identities",
		Want: "several leases for one machine, and boot URLs with brackets", Status: Later,
		Note: "there is no DHCPv6 server",
	},
	{
		ID: "D-26", Who: "DHCP relays",
		Does: "add option 82 and drop replies in which it has changed",
		Want: "it comes back as it was, and replies go to the relay", Status: Flag,
		Note: "where replies go: pxe/dhcp TestDestination",
	},
	{
		ID: "D-27", Who: "InfiniBand",
		Does: "has no MAC address in its packets, only a client id",
		Want: "is known by its client id", Status: Tested,
		Note: "pxe/dhcp TestInfiniBandIsKnownByItsClientID; it gets an address, but no boot script, which goes by MAC",
	},
	{
		ID: "D-28", Who: "nodes with ports that may not boot",
		Does: "a card asks to boot whose port has pxe_enabled=false",
		Want: "an address and no boot answer", Status: Tested,
		Note: "pxe/dhcp TestPortWithoutPXEGetsNoBootAnswer: it is a setting, not a machine's behaviour",
	},
	{
		ID: "D-29", Who: "networks with another DHCP server",
		Does: "its offer comes first and names nothing to boot",
		Want: "its requests are left alone and the operator is told; in proxy mode both work together", Status: Flag,
	},
	{
		ID: "D-30", Who: "Matrox and ASPEED graphics",
		Does: "packets are lost in the ramdisk when nomodeset is given",
		Want: "it is not given", Status: Flag,
	},
}
