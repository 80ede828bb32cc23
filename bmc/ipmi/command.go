package ipmi

// A command is an IPMI command: its network function and number, and its name
// in the specification.
type command struct {
	name      string
	netFn, id byte
}

var (
	cmdChassisStatus  = command{"Get Chassis Status", 0x00, 0x01}
	cmdChassisControl = command{"Chassis Control", 0x00, 0x02}
	cmdSetBoot        = command{"Set System Boot Options", 0x00, 0x08}
	cmdGetBoot        = command{"Get System Boot Options", 0x00, 0x09}
	cmdDeviceID       = command{"Get Device ID", 0x06, 0x01}
	cmdGUID           = command{"Get System GUID", 0x06, 0x37}
	cmdCapabilities   = command{"Get Channel Authentication Capabilities", 0x06, 0x38}
	cmdSetPrivilege   = command{"Set Session Privilege Level", 0x06, 0x3b}
	cmdCloseSession   = command{"Close Session", 0x06, 0x3c}
)
