package flaw

// noMedia is why most rows on virtual media wait.
const (
	noMedia  = "Bessemer does not boot from virtual media yet"
	hasMedia = noMedia + "; the simulated controller has the drives."
)

var mediaRows = []Row{
	{
		ID: "V-01", Who: "various", Does: "virtual drives are under the managers only",
		Want: "look under systems and managers", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-02", Who: "Cisco UCS B and X", Does: "the drive is for DVDs only",
		Want: "take a CD or a DVD drive", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-03", Who: "Supermicro X11 and X12", Does: "InsertMedia with Inserted or WriteProtected is refused",
		Want: "leave out what is the default", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-04", Who: "Lenovo ThinkSystem", Does: "there are no actions; the drive's resource is changed, with Inserted",
		Want: "change the resource where there are no actions", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-05", Who: "Supermicro X12 and others", Does: "an address with a query, or without .iso at its end, is refused",
		Want: "a short path that ends in .iso", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-06", Who: "HPE iLO", Does: "EjectMedia without a JSON object is refused",
		Want: "send an empty one", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-07", Who: "some", Does: "ejecting what is empty is an error",
		Want: "take it for done", Status: Later, Note: hasMedia,
	},
	{
		ID: "V-08", Who: "Dell iDRAC", Does: "ejecting the drive that a ramdisk runs from breaks the ramdisk",
		Want: "turn the machine off first", Status: Later, Note: noMedia + ".",
	},
	{
		ID: "V-09", Who: "Supermicro", Does: "the boot target of a virtual CD is called UsbCd",
		Want: "choose among the names that are allowed", Status: Flag,
	},
	{
		ID: "V-10", Who: "Dell iDRAC10", Does: "only one of the drives boots",
		Want: "try the others", Status: Later, Note: noMedia + ".",
	},
	{
		ID: "V-11", Who: "many", Does: "an image by HTTPS is refused for its certificate",
		Want: "offer it by HTTP, or send the certificate first", Status: Later, Note: noMedia + ".",
	},
	{
		ID: "V-12", Who: "Dell", Does: "inserting just after ejecting fails",
		Want: "repeat it for a while", Status: Later, Note: noMedia + ".",
	},
	{
		ID: "V-13", Who: "some", Does: "user, password or transfer method must be sent though there are none",
		Want: "send them when the error says so", Status: Later, Note: noMedia + ".",
	},
	{
		ID: "V-14", Who: "Dell iDRAC, AMI", Does: "unused virtual drives are disks without a size, or read-only ones",
		Want: "never take one for the root disk, never erase one", Status: Tested, Note: "agent/disk: TestSelect; agent: TestClean",
	},
}
