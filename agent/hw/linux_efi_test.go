//go:build linux

package hw

import (
	"context"
	"errors"
	"strings"
	"testing"

	efi "github.com/canonical/go-efilib"
	"github.com/google/go-cmp/cmp"
)

// variables are EFI variables in memory; full refuses to grow them.
type variables struct {
	all  map[string][]byte
	full bool
}

func (v *variables) Get(name string, _ efi.GUID) (efi.VariableAttributes, []byte, error) {
	b, ok := v.all[name]
	if !ok {
		return 0, nil, efi.ErrVarNotExist
	}
	return efi.AttributeNonVolatile | efi.AttributeBootserviceAccess | efi.AttributeRuntimeAccess, b, nil
}

func (v *variables) Set(name string, _ efi.GUID, _ efi.VariableAttributes, data []byte) error {
	if len(data) == 0 {
		delete(v.all, name)
		return nil
	}
	if v.full && len(data) > len(v.all[name]) {
		return efi.ErrVarInsufficientSpace
	}
	v.all[name] = data
	return nil
}

func (v *variables) List() ([]efi.VariableDescriptor, error) {
	var all []efi.VariableDescriptor
	for name := range v.all {
		all = append(all, efi.VariableDescriptor{Name: name, GUID: efi.GlobalVariable})
	}
	return all, nil
}

func testEFI(v *variables) linuxEFI {
	return linuxEFI{ctx: context.WithValue(context.Background(), efi.VarsBackendKey{}, efi.VarsBackend(v))}
}

var esp = Partition{Number: 1, FirstLBA: 2048, LastLBA: 206847, UUID: "66de947b-fdb2-4525-b752-30d66bb2b960", SectorSize: 512}

func TestEFIEntries(t *testing.T) {
	v := &variables{all: map[string][]byte{"Boot0007": {1, 2, 3}, "BootOrder": {7, 0}, "Timeout": {1, 0}}} // 0007 is broken
	e := testEFI(v)
	for i := range 3 { // deployed three times
		n, err := e.SetEntry("bessemer", "/EFI/debian/shimx64.efi", esp)
		if err != nil || n != 0 {
			t.Fatalf("deployment %d: entry %d, %v", i, n, err)
		}
	}
	if _, err := e.SetEntry("other", `\EFI\BOOT\BOOTX64.EFI`, esp); err != nil {
		t.Fatal(err)
	}
	got, err := e.Entries()
	if err != nil {
		t.Fatal(err)
	}
	want := []BootEntry{
		{Number: 0, Label: "bessemer", Active: true, PartUUID: esp.UUID, Loader: `\EFI\debian\shimx64.efi`},
		{Number: 1, Label: "other", Active: true, PartUUID: esp.UUID, Loader: `\EFI\BOOT\BOOTX64.EFI`},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]byte{1, 0, 0, 0, 7, 0}, v.all["BootOrder"]); d != "" {
		t.Errorf("BootOrder (-want +got):\n%s", d)
	}
	if err := e.Delete(0); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.all["Boot0000"]; ok || cmp.Diff([]byte{1, 0, 7, 0}, v.all["BootOrder"]) != "" {
		t.Errorf("after deletion: %v", v.all)
	}
}

func TestEFIFull(t *testing.T) {
	e := testEFI(&variables{all: map[string][]byte{"BootOrder": {0, 0}}, full: true})
	_, err := e.SetEntry("bessemer", "/EFI/x.efi", esp)
	if !errors.Is(err, efi.ErrVarInsufficientSpace) || !strings.Contains(err.Error(), "let the BMC set the boot order") {
		t.Errorf("got %v", err)
	}
}

func TestEFIWithoutOrder(t *testing.T) {
	v := &variables{all: map[string][]byte{}}
	if _, err := testEFI(v).SetEntry("bessemer", "/EFI/x.efi", esp); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]byte{0, 0}, v.all["BootOrder"]); d != "" {
		t.Errorf("BootOrder (-want +got):\n%s", d)
	}
}

func TestEFIBadPartition(t *testing.T) {
	v := &variables{all: map[string][]byte{}}
	for _, p := range []Partition{{Number: 1, LastLBA: 5, UUID: "no"}, {Number: 0, LastLBA: 5, UUID: esp.UUID}, {Number: 1, FirstLBA: 9, LastLBA: 5, UUID: esp.UUID}} {
		if _, err := testEFI(v).SetEntry("bessemer", "/x", p); err == nil || len(v.all) != 0 {
			t.Errorf("%+v: taken, %v", p, err)
		}
	}
}
