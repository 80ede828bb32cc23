package redfish

import (
	"errors"
	"testing"

	"bessemer/bmc"
)

func TestSetBootQuirks(t *testing.T) {
	pxe := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
	for _, tt := range []struct {
		quirks string
		set    bmc.Boot
		want   bmc.Boot // "" device: as set
	}{
		{"", pxe, pxe},
		{"R-01", pxe, pxe},
		{"R-01 429", pxe, pxe},
		{"R-01 no tag", pxe, pxe},
		{"R-02", pxe, pxe},
		{"R-03", pxe, pxe},
		{"R-04 body", pxe, pxe},
		{"R-04 bare", pxe, pxe},
		{"R-08", pxe, pxe},
		{"R-09 no link", pxe, pxe},
		{"B-04", bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, bmc.Boot{Device: bmc.Disk, Mode: "uefi"}},
		{"B-05", pxe, bmc.Boot{Device: bmc.PXE}},
		{"B-06", pxe, pxe},
		{"B-06 empty", pxe, pxe},
		{"B-07", bmc.Boot{}, bmc.Boot{Mode: "uefi"}},
		{"B-18", pxe, pxe},
	} {
		t.Run(tt.quirks, func(t *testing.T) {
			b := newFakeBMC(t, tt.quirks)
			b.boot["BootSourceOverrideTarget"] = "Cd"
			d := b.open(t, "redfish_system_id", systemPath)
			for range 2 {
				if err := d.SetBoot(t.Context(), tt.set); err != nil {
					t.Fatal(err)
				}
				got, err := d.Boot(t.Context())
				if err != nil || got != tt.want {
					t.Errorf("got %s, %v, want %s", got, err, tt.want)
				}
			}
		})
	}
}

// TestETagFormIsRemembered counts what the second write costs.
func TestETagFormIsRemembered(t *testing.T) {
	b := newFakeBMC(t, "R-02")
	d := b.open(t)
	for range 2 {
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count("PATCH " + systemPath); n > 5 {
		t.Errorf("got %d PATCH requests for two settings, want at most 5", n)
	}
	last := len(b.requests) - 2
	if b.requests[last] != "GET "+systemPath {
		t.Errorf("the second setting took more than one PATCH: %v", b.requests[last:])
	}
}

func TestAllOfAnOverrideIsSent(t *testing.T) {
	b := newFakeBMC(t)
	b.boot["BootSourceOverrideMode"] = "Legacy"
	if err := b.open(t).SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE}); err != nil {
		t.Fatal(err)
	}
	want := `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"Legacy","BootSourceOverrideTarget":"Pxe"}}`
	if len(b.bodies) != 1 || b.bodies[0] != want {
		t.Errorf("got %v, want %s", b.bodies, want)
	}
}

func TestTargetNames(t *testing.T) {
	for _, tt := range []struct {
		device  bmc.BootDevice
		allowed []text
		p       profile
		want    string
	}{
		{bmc.CDROM, nil, profile{}, "Cd"},
		{bmc.CDROM, []text{"Pxe", "UsbCd"}, profile{}, "UsbCd"},
		{bmc.CDROM, []text{"Cd", "UsbCd"}, profile{cdromByUSBFirst: true}, "UsbCd"},
		{bmc.UEFIHTTP, []text{"Pxe"}, profile{}, ""},
		{bmc.Safe, nil, profile{}, ""},
	} {
		got, err := target(tt.device, override{Targets: loose[[]text]{tt.allowed}}, tt.p)
		if got != tt.want || (got == "") != errors.Is(err, bmc.ErrUnsupported) {
			t.Errorf("%s of %v: got %q, %v, want %q", tt.device, tt.allowed, got, err, tt.want)
		}
	}
}
