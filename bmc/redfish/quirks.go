package redfish

import "strings"

// A profile is what a controller's vendor makes us do differently.
type profile struct {
	serialInSKU     bool
	clearKeepsPXE   bool
	cdromByUSBFirst bool
}

// A quirk is an oddity that is recognised by the vendor's name.
type quirk struct {
	id     string
	vendor string // part of ServiceRoot.Vendor or Product, or the system's Manufacturer, in lower case
	wrong  string
	we     string
	source string
	apply  func(*profile)
}

var quirks = []quirk{
	{
		id: "N-05", vendor: "dell",
		wrong:  "SerialNumber is the board's; the service tag stands in SKU",
		we:     "take the serial number from SKU",
		source: "ironic release note idrac-inspect-sku",
		apply:  func(p *profile) { p.serialInSKU = true },
	},
	{
		id: "B-07", vendor: "hpe",
		wrong:  "clearing the override with target None is refused",
		we:     "keep the target and set the override to Disabled",
		source: "metal-operator#998",
		apply:  func(p *profile) { p.clearKeepsPXE = true },
	},
	{
		id: "V-09", vendor: "supermicro",
		wrong:  "virtual CD is called UsbCd, even where Cd is listed too",
		we:     "prefer UsbCd when it is listed",
		source: "sushy release note change-bootdev-smc",
		apply:  func(p *profile) { p.cdromByUSBFirst = true },
	},
}

// profileOf combines the quirks of a vendor. The first name that is known
// decides: the service root's, as the machine may bear another maker's name
// than its controller.
func profileOf(names ...string) profile {
	var p profile
	for _, name := range names {
		name = strings.ToLower(name)
		hit := false
		for _, q := range quirks {
			if name != "" && strings.Contains(name, q.vendor) {
				q.apply(&p)
				hit = true
			}
		}
		if hit {
			break
		}
	}
	return p
}

// A meaning is what an error answer says beyond its status.
type meaning int

const (
	sessionsFull meaning = iota + 1 // no room for another session
	notReady                        // the controller is starting, ask again
	badLogin                        // user or password refused, whatever the status
	needsETag                       // the If-Match header is missing or wrong
)

// signs are the words by which an error answer is known to mean something.
var signs = []struct {
	id    string
	words string
	means meaning
}{
	{"R-06", "rac0218", sessionsFull}, // Dell
	{"R-06", "maximum number of user sessions", sessionsFull},
	{"R-06", "sessionlimitexceeded", sessionsFull}, // DMTF's registry
	{"R-12", "sys518", notReady},                   // Dell
	{"R-12", "is not ready", notReady},
	{"R-11", "unauthorizedloginattempt", badLogin}, // HPE answers 400
	{"R-01", "if-match", needsETag},
	{"R-01", "preconditionfailed", needsETag},
	{"R-01", "preconditionrequired", needsETag},
}

// says reports whether an answer bears a sign of the meaning.
func (e *statusError) says(m meaning) bool {
	raw := strings.ToLower(e.raw)
	for _, s := range signs {
		if s.means == m && strings.Contains(raw, s.words) {
			return true
		}
	}
	return false
}
