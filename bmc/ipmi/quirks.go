package ipmi

import "context"

// A profile is what a controller's maker makes us do differently.
type profile struct {
	remoteDiskForUEFI bool
}

// A quirk is an oddity that is recognised by the manufacturer's number in Get
// Device ID.
type quirk struct {
	id     string
	maker  int // IANA enterprise number
	wrong  string
	we     string
	source string
	apply  func(*profile)
}

var quirks = []quirk{
	{
		id: "I-02", maker: 10876,
		wrong: "selector 0x08 boots no disk under UEFI", we: "use 0x24, remote hard drive",
		source: "ironic story 2008241",
		apply:  func(p *profile) { p.remoteDiskForUEFI = true },
	},
	{
		id: "I-02", maker: 47488,
		wrong: "as 10876: the maker's second number", we: "use 0x24, remote hard drive",
		source: "ironic story 2008241",
		apply:  func(p *profile) { p.remoteDiskForUEFI = true },
	},
}

// makers are the names of the commonest numbers.
var makers = map[int]string{
	2: "IBM", 11: "HP", 42: "Sun", 343: "Intel", 674: "Dell", 2011: "Huawei", 5771: "Cisco", 6569: "Inspur",
	7154: "ipmi_sim", 10368: "Fujitsu", 10876: "Supermicro", 15370: "Giga-Byte", 19046: "Lenovo", 20301: "Lenovo",
	21317: "ASPEED", 47196: "HPE", 47488: "Supermicro", 49622: "ASRock Rack",
}

// quirks returns what the controller's maker makes necessary.
func (d *driver) quirks(ctx context.Context) (profile, error) {
	var p profile
	if d.maker == 0 {
		if _, err := d.deviceID(ctx); err != nil {
			return p, err
		}
	}
	for _, q := range quirks {
		if q.maker == d.maker {
			q.apply(&p)
		}
	}
	return p, nil
}
