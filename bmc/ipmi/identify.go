package ipmi

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"bessemer/bmc"
)

// Identify implements [bmc.Driver]. A controller that does not tell the
// machine's identifier is no error.
func (d *driver) Identify(ctx context.Context) (bmc.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, err := d.deviceID(ctx)
	if err != nil {
		return bmc.Info{}, err
	}
	info := bmc.Info{Vendor: makers[d.maker], Firmware: id.firmware, Model: fmt.Sprintf("product 0x%04x", id.product)}
	if info.Vendor == "" {
		info.Vendor = fmt.Sprintf("IANA %d", d.maker)
	}
	guid, err := d.run(ctx, cmdGUID)
	if err != nil && code(err) == 0 {
		return bmc.Info{}, err
	}
	info.SystemUUID = guidText(guid)
	return info, nil
}

type deviceID struct {
	firmware string
	product  int
}

// deviceID reads Get Device ID (section 20.1).
func (d *driver) deviceID(ctx context.Context) (deviceID, error) {
	b, err := d.run(ctx, cmdDeviceID)
	if err != nil {
		return deviceID{}, err
	}
	if len(b) < 11 {
		return deviceID{}, errors.Join(errors.New(cmdDeviceID.name), errMalformed)
	}
	d.maker = int(b[6]) | int(b[7])<<8 | int(b[8]&0x0f)<<16
	minor := int(b[3]>>4)*10 + int(b[3]&0x0f) // BCD
	return deviceID{firmware: fmt.Sprintf("%d.%02d", b[2]&0x7f, minor), product: int(b[9]) | int(b[10])<<8}, nil
}

// guidText finds the UUID in the bytes of Get System GUID. The specification
// has them in reverse, but most controllers send them as SMBIOS has them, and
// some as RFC 9562 has: the version and variant bits tell which. When none
// fits, or two do and differ, it is "": no identifier is better than a wrong
// one.
func guidText(b []byte) string {
	if len(b) != 16 {
		return ""
	}
	var plain, smbios, reversed uuid.UUID
	copy(plain[:], b)
	copy(smbios[:], []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]})
	copy(smbios[8:], b[8:])
	for i := range b {
		reversed[i] = b[15-i]
	}
	found := ""
	for _, u := range []uuid.UUID{plain, smbios, reversed} {
		if v := u.Version(); u.Variant() != uuid.RFC4122 || v < 1 || v > 5 {
			continue
		}
		if found != "" && found != u.String() {
			return ""
		}
		found = u.String()
	}
	return found
}
