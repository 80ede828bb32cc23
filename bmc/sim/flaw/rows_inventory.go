package flaw

// noInspection is why rows on what is read from machines wait.
const noInspection = "Bessemer does not inspect machines yet"

var inventoryRows = []Row{
	{
		ID: "N-01", Who: "several", Does: "a card's address is empty, zero or N/A",
		Want: "leave the card out", Status: Flag,
	},
	{
		ID: "N-02", Who: "all", Does: "addresses in upper case, with dashes, with dots",
		Want: "one spelling, made where they come in", Status: Flag,
	},
	{
		ID: "N-03", Who: "bonds, DPUs", Does: "all cards of a bond show one address; a DPU adds cards that nobody knows",
		Want: "send each address once; any port of the node will do", Status: Flag,
		Note: "reading the address that is burnt into a card: TestInventory in agent/hw",
	},
	{
		ID: "N-04", Who: "Cisco UCS B and X", Does: "the controller lists no network cards",
		Want: "the ports that the operator enters are enough", Status: Flag,
	},
	{
		ID: "N-05", Who: "Dell", Does: "the serial number is the board's; the service tag stands elsewhere",
		Want: "take the service tag on Dell", Status: Flag,
	},
	{
		ID: "N-06", Who: "any", Does: "the name of the product is read from a field that says System",
		Want: "take the model", Status: Tested, Note: "TestIdentify in bmc/redfish",
	},
	{
		ID: "N-07", Who: "some", Does: "network adapters have another id after each start",
		Want: "know them by serial number", Status: Later, Note: "no adapter is remembered by its id: " + noInspection,
	},
	{
		ID: "N-08", Who: "any", Does: "a switch sends odd bytes by LLDP; a card says that it is ready and is not",
		Want: "what one card says badly costs nothing of the others", Status: Tested,
		Note: "TestParseLLDP in agent/boot; nothing else looks at it yet: " + noInspection,
	},
	{
		ID: "N-09", Who: "any", Does: "no address of the controller, no memory sizes, no place of a card",
		Want: "go on with what is known", Status: Tested, Note: "TestInventoryOfABareTree and TestModuleMB in agent/hw",
	},
	{
		ID: "N-10", Who: "inspection", Does: "what could not be found out overwrites what was known with 0",
		Want: "the unknown never replaces the known", Status: Later, Note: noInspection,
	},
	{
		ID: "N-11", Who: "blades", Does: "many machines have one controller's address",
		Want: "tell machines by their cards, and by their number at the controller", Status: Tested,
		Note: "TestLookup in server/conductor: machines are looked up by their cards alone; TestSystemID in bmc/redfish",
	},
}
