package flaw

var redfishRows = []Row{
	{
		ID: "R-01", Who: "Lenovo (428), Huawei (429), others (412)", Does: "a change without If-Match is refused",
		Want: "send the ETag of the resource that is changed", Status: Flag,
	},
	{
		ID: "R-02", Who: "Gigabyte", Does: "a change with If-Match is refused, whatever its value",
		Want: "try it without the header at last, and remember that", Status: Flag,
	},
	{
		ID: "R-03", Who: "controllers behind Apache", Does: "the ETag is weak and ends in -gzip, and does not match like that",
		Want: "ask for no compression, and take the suffix off", Status: Flag,
	},
	{
		ID: "R-04", Who: "Intel and another", Does: "the ETag in the header is quoted twice; only the one in the body matches",
		Want: "try the header's, the body's and the bare value in turn", Status: Flag,
	},
	{
		ID: "R-05", Who: "some", Does: "an action with If-Match is refused: the ETag is another resource's",
		Want: "send none with actions", Status: Flag,
	},
	{
		ID: "R-06", Who: "Dell iDRAC, HPE iLO, all", Does: "others hold all sessions: RAC0218",
		Want: "one session per controller, ended on every path, noted so that a crash's is ended too; with no room for one, Basic authentication", Status: Flag,
	},
	{
		ID: "R-07", Who: "several", Does: "the second request on a connection ends it without an answer",
		Want: "repeat what may be repeated, and send what may not be on a new connection", Status: Flag,
	},
	{
		ID: "R-08", Who: "some", Does: "asking for no compression is refused with 406",
		Want: "do not say it again", Status: Flag,
	},
	{
		ID: "R-09", Who: "some", Does: "there are no sessions",
		Want: "find them by the root's own link, else Basic authentication", Status: Flag,
	},
	{
		ID: "R-10", Who: "all", Does: "a session ends after three requests",
		Want: "log in once more and make the same request once more", Status: Flag,
	},
	{
		ID: "R-11", Who: "Dell iDRAC and others", Does: "three wrong passwords in a row lock the account for ten minutes",
		Want: "stop asking after two, until the password is changed or ten minutes are over", Status: Flag,
	},
	{
		ID: "R-12", Who: "Dell iDRAC (SYS518), all while they start", Does: "each seventh request is answered 503 with Retry-After",
		Want: "repeat it after that time; repeat an action only after a look at the machine", Status: Flag,
	},
	{
		ID: "R-13", Who: "Dell R630, HPE iLO", Does: "an action without a body, or with another media type, is refused",
		Want: "always send a JSON object and say so", Status: Flag,
	},
	{
		ID: "R-14", Who: "some", Does: "errors are web pages, without a code",
		Want: "decide by the status, and show the beginning of the text", Status: Flag,
	},
	{
		ID: "R-15", Who: "some", Does: "an action is done at once, and answered a minute and a half later",
		Want: "stop waiting, look at the machine, and do not do it twice", Status: Flag,
	},
	{
		ID: "R-16", Who: "dead controllers", Does: "the connection is never made",
		Want: "give up after a time of its own, and hold up no other controller", Status: Tested,
		Note: "bmctest.Suite: silent controller, nothing listens. The fault bmc-hang is the nearest that a socket which listens can do.",
	},
	{
		ID: "R-17", Who: "IPv6", Does: "the address is given without brackets, or with them",
		Want: "understand both", Status: Tested, Note: "bmc/redfish: TestAddress",
	},
	{
		ID: "R-18", Who: "Huawei 1288H", Does: "the system does not say what manages it",
		Want: "look in the collection of managers", Status: Flag,
	},
	{
		ID: "R-19", Who: "Dell", Does: "tasks have unknown states, and are gone a minute after their end",
		Want: "never take that for success", Status: Later, Note: "Nothing that Bessemer asks of a controller yet is done by a task.",
	},
	{
		ID: "R-20", Who: "Dell", Does: "a job that was just made is not found",
		Want: "ask again for a while", Status: Later, Note: "Nothing that Bessemer asks of a controller yet is done by a job.",
	},
	{
		ID: "R-21", Who: "HPE Gen11 and others", Does: "network cards and adapters answer 400, and storage is missing",
		Want: "go on with what can be read", Status: Flag,
	},
	{
		ID: "R-22", Who: "servers under another maker's name", Does: "the system says Dell, its controller is HPE's",
		Want: "go by the vendor that the service root names", Status: Flag,
	},
	{
		ID: "R-23", Who: "some", Does: "the controller's clock is decades behind, and setting what is set already is refused",
		Want: "accept any clock, and set only what differs", Status: Later,
		Note: "A controller's clock is neither used nor set yet; the simulated one shows 1970.",
	},
	{
		ID: "R-24", Who: "all", Does: "the message registries are many megabytes",
		Want: "do not read them", Status: Flag,
	},
	{
		ID: "R-25", Who: "some", Does: "BIOS attributes have other types than their registry says",
		Want: "convert by the registry", Status: Later, Note: "BIOS attributes are not managed yet.",
	},
	{
		ID: "R-26", Who: "all", Does: "after an update of the controller's firmware its resources come and go",
		Want: "go on after several good reads", Status: Later, Note: "Firmware is not updated yet.",
	},
	{
		ID: "R-27", Who: "management hosts", Does: "HTTP_PROXY is set",
		Want: "never reach a controller by a proxy", Status: Tested, Note: "bmc/redfish: TestNoProxy",
	},
	{
		ID: "R-28", Who: "any", Does: "the controller has a second system",
		Want: "take the only one there is, else ask which", Status: Flag,
	},
}
