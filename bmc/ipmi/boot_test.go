package ipmi

import (
	"bytes"
	"errors"
	"testing"

	"bessemer/bmc"
)

func TestBootFlags(t *testing.T) {
	for _, tt := range []struct {
		maker uint32
		boot  bmc.Boot
		want  []byte
	}{
		{0, bmc.Boot{Device: bmc.PXE, Mode: "uefi"}, []byte{0xa0, 0x04, 0, 0, 0}}, // I-01
		{0, bmc.Boot{Device: bmc.PXE, Mode: "bios"}, []byte{0x80, 0x04, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, []byte{0xe0, 0x08, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.Disk, Mode: "bios", Persistent: true}, []byte{0xc0, 0x08, 0, 0, 0}},
		{10876, bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, []byte{0xe0, 0x24, 0, 0, 0}}, // I-02
		{10876, bmc.Boot{Device: bmc.Disk, Mode: "bios"}, []byte{0x80, 0x08, 0, 0, 0}},
		{0, bmc.Boot{Device: bmc.CDROM}, []byte{0xa0, 0x14, 0, 0, 0}},
		{0, bmc.Boot{}, []byte{0x20, 0, 0, 0, 0}},
		{0, bmc.Boot{Mode: "bios"}, []byte{0, 0, 0, 0, 0}},
	} {
		b := newFakeBMC(t, options{maker: tt.maker})
		if err := open(t, b.port).SetBoot(t.Context(), tt.boot); err != nil {
			t.Errorf("%s: %v", tt.boot, err)
		}
		if got := b.takeFlags(); !bytes.Equal(got, tt.want) {
			t.Errorf("%s of maker %d: got % x, want % x", tt.boot, tt.maker, got, tt.want)
		}
	}
}

func TestUnaskedModeStays(t *testing.T) {
	b := newFakeBMC(t, options{})
	d := open(t, b.port)
	for _, boot := range []bmc.Boot{{Device: bmc.PXE, Mode: "bios"}, {Device: bmc.Disk}} {
		if err := d.SetBoot(t.Context(), boot); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Boot(t.Context()); err != nil || got.Mode != "bios" {
		t.Errorf("got %s, %v, want the mode bios", got, err)
	}
}

// TestFlagsAreWrittenThoughCourtesiesAreRefused has a controller that refuses
// all parameters but the flags (H12).
func TestFlagsAreWrittenThoughCourtesiesAreRefused(t *testing.T) {
	s := &script{answer: func(cmd command, data []byte) ([]byte, byte) {
		if cmd.id == cmdSetBoot.id && data[0] != paramBootFlags {
			return nil, codeNoParameter
		}
		if cmd.id == cmdGetBoot.id {
			return []byte{1, paramBootFlags, 0xa0, 0x04, 0, 0, 0}, 0
		}
		return nil, 0
	}}
	if err := s.driver().SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
		t.Fatal(err)
	}
	if !s.sent(cmdSetBoot, paramBootFlags, 0xa0, 0x04, 0, 0, 0) {
		t.Errorf("the flags were not written: %v", s.log)
	}
	s.answer = func(cmd command, data []byte) ([]byte, byte) { return nil, codeNoParameter }
	if err := s.driver().SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); code(err) != codeNoParameter {
		t.Errorf("refused flags: got %v, want 0x80", err)
	}
}

// TestReadBackThatMeansNothing has a controller that always says that its
// flags are not valid, as ipmi_sim does.
func TestReadBackThatMeansNothing(t *testing.T) {
	s := &script{answer: func(cmd command, _ []byte) ([]byte, byte) {
		if cmd.id == cmdGetBoot.id {
			return []byte{1, paramBootFlags, 0, 0, 0, 0, 0}, 0
		}
		return []byte{1}, 0
	}}
	d := s.driver()
	if got, err := d.Boot(t.Context()); err != nil || got != (bmc.Boot{}) {
		t.Errorf("before: got %s, %v, want none", got, err)
	}
	if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Boot(t.Context()); !errors.Is(err, bmc.ErrNoReadBack) {
		t.Errorf("after: got %v, want ErrNoReadBack", err)
	}
}

func TestForceBootDevice(t *testing.T) {
	for _, force := range []string{"False", "True"} {
		b := newFakeBMC(t, options{})
		d := open(t, b.port, "ipmi_force_boot_device", force)
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}); err != nil {
			t.Fatal(err)
		}
		b.takeFlags()
		if err := d.Power(t.Context(), bmc.On); err != nil {
			t.Fatal(err)
		}
		if got := b.takeFlags() != nil; got != (force == "True") {
			t.Errorf("ipmi_force_boot_device=%s: set again is %v (I-14)", force, got)
		}
	}
}

func TestDisableBootTimeout(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := &script{}
		d := s.driver()
		d.s.keepFlags = keep
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
			t.Fatal(err)
		}
		if got := s.sent(cmdSetBoot, paramKeepValid, 8); got != keep {
			t.Errorf("ipmi_disable_boot_timeout=%v: parameter 3 sent is %v (I-03)", keep, got)
		}
	}
}
