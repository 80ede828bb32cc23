package redfish

import (
	"bytes"
	"encoding/json"
	"strings"
)

// The resources, as far as the driver reads them. They are decoded here and
// not into the library's types, because these fail as a whole when a vendor
// writes one number as a string.

// text is a string that may come as null, a number or a truth value.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	switch {
	case json.Unmarshal(b, &s) == nil:
		*t = text(strings.TrimSpace(s))
	case bytes.ContainsAny(b[:1], "{["):
		*t = ""
	default:
		*t = text(b)
	}
	return nil
}

// loose is a value that is left zero when it comes in another form.
type loose[T any] struct{ v T }

func (l *loose[T]) UnmarshalJSON(b []byte) error {
	var v T
	if json.Unmarshal(b, &v) == nil {
		l.v = v
	}
	return nil
}

// link is a reference to another resource of the same controller.
type link struct {
	ID text `json:"@odata.id"`
}

// path returns where the link points to, "" if that is no path.
func (l loose[T]) path() string {
	k, ok := any(l.v).(link)
	if !ok || !strings.HasPrefix(string(k.ID), "/") {
		return ""
	}
	return string(k.ID)
}

type root struct {
	Vendor, Product text
	RedfishVersion  text
	Systems         loose[link]
	Managers        loose[link]
	SessionService  loose[link]
	Links           loose[struct{ Sessions loose[link] }]
}

type collection struct {
	Members loose[[]link]
}

// paths returns the members of a collection that are paths, at most max.
func (c collection) paths(max int) []string {
	var ps []string
	for _, m := range c.Members.v {
		if strings.HasPrefix(string(m.ID), "/") && len(ps) < max {
			ps = append(ps, string(m.ID))
		}
	}
	return ps
}

type system struct {
	ETag                                         text `json:"@odata.etag"`
	Manufacturer, Model, SerialNumber, SKU, UUID text
	PowerState                                   text
	Boot                                         loose[override]
	Actions                                      loose[struct {
		Reset loose[resetAction] `json:"#ComputerSystem.Reset"`
	}]
	EthernetInterfaces loose[link]
	Links              loose[struct{ ManagedBy loose[[]link] }]
	Settings           loose[struct{ SettingsObject loose[link] }] `json:"@Redfish.Settings"`
}

type resetAction struct {
	Target     text          `json:"target"`
	Allowed    loose[[]text] `json:"ResetType@Redfish.AllowableValues"`
	ActionInfo text          `json:"@Redfish.ActionInfo"`
}

type actionInfo struct {
	Parameters loose[[]struct {
		Name            text
		AllowableValues loose[[]text]
	}]
}

// override is the Boot object of a system or of its settings resource.
type override struct {
	Enabled       *text         `json:"BootSourceOverrideEnabled"`
	Target        *text         `json:"BootSourceOverrideTarget"`
	Mode          text          `json:"BootSourceOverrideMode"`
	Targets       loose[[]text] `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	EnabledValues loose[[]text] `json:"BootSourceOverrideEnabled@Redfish.AllowableValues"`
	Path          text          `json:"UefiTargetBootSourceOverride"`
	Order         loose[[]text] `json:"BootOrder"`
	Options       loose[link]   `json:"BootOptions"`
	hasMode       bool
}

func (o *override) UnmarshalJSON(b []byte) error {
	type plain override
	if err := json.Unmarshal(b, (*plain)(o)); err != nil {
		return err
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	_, o.hasMode = keys["BootSourceOverrideMode"]
	return nil
}

type bootOption struct {
	UefiDevicePath text
}

type manager struct {
	FirmwareVersion, Model text
}

type ethernetInterface struct {
	MACAddress, PermanentMACAddress text
}
