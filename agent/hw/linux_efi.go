//go:build linux

package hw

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	efi "github.com/canonical/go-efilib"
	"golang.org/x/sys/unix"
)

// EFI implements Machine.
func (m *Linux) EFI() EFI {
	if !m.exists("sys/firmware/efi") {
		return nil
	}
	return linuxEFI{ctx: efi.WithDefaultVarsBackend(context.Background())}
}

// linuxEFI is the firmware's variables through efivarfs. Some of them are
// marked immutable there; the library takes the mark off and puts it back.
type linuxEFI struct {
	ctx context.Context // carries the library's access to the variables
}

var _ EFI = linuxEFI{}

// Entries implements EFI.
func (e linuxEFI) Entries() ([]BootEntry, error) {
	numbers, err := efi.ListLoadOptionNumbers(e.ctx, efi.LoadOptionClassBoot)
	if err != nil {
		return nil, explainEFI("list boot entries", err)
	}
	var all []BootEntry
	for _, n := range numbers {
		option, err := efi.ReadLoadOptionVariable(e.ctx, efi.LoadOptionClassBoot, n)
		if err != nil { // an entry that firmware wrote badly is not ours to judge
			continue
		}
		all = append(all, bootEntry(int(n), option))
	}
	return all, nil
}

func bootEntry(n int, o *efi.LoadOption) BootEntry {
	b := BootEntry{Number: n, Label: o.Description, Active: o.IsActive()}
	for _, node := range o.FilePath {
		switch node := node.(type) {
		case *efi.HardDriveDevicePathNode:
			if guid, ok := node.Signature.(efi.GUIDHardDriveSignature); ok {
				b.PartUUID = strings.ToLower(efi.GUID(guid).String())
			}
		case efi.FilePathDevicePathNode:
			b.Loader = string(node)
		}
	}
	return b
}

// SetEntry implements EFI. Entries of the same label go first, so that an NVRAM
// that is nearly full has room (quirk U-06), and many deployments leave one.
func (e linuxEFI) SetEntry(label, loader string, part Partition) (int, error) {
	option, err := loadOption(label, loader, part)
	if err != nil {
		return 0, fmt.Errorf("set boot entry %q: %w", label, err)
	}
	old, err := e.Entries()
	if err != nil {
		return 0, err
	}
	for _, b := range old {
		if b.Label == label {
			if err := e.Delete(b.Number); err != nil {
				return 0, err
			}
		}
	}
	n, err := efi.NextAvailableLoadOptionNumber(e.ctx, efi.LoadOptionClassBoot)
	if err != nil {
		return 0, explainEFI("find a free boot entry", err)
	}
	if err := efi.WriteLoadOptionVariable(e.ctx, efi.LoadOptionClassBoot, n, option); err != nil {
		return 0, explainEFI(fmt.Sprintf("write boot entry %04X %q", n, label), err)
	}
	if err := e.reorder(func(order []uint16) []uint16 { return append([]uint16{n}, without(order, n)...) }); err != nil {
		return 0, err
	}
	return int(n), nil
}

// Delete implements EFI. The entry leaves BootOrder first: firmware may take
// an order that names nothing for broken.
func (e linuxEFI) Delete(number int) error {
	n := uint16(number)
	if err := e.reorder(func(order []uint16) []uint16 { return without(order, n) }); err != nil {
		return err
	}
	if err := efi.DeleteLoadOptionVariable(e.ctx, efi.LoadOptionClassBoot, n); err != nil {
		return explainEFI(fmt.Sprintf("delete boot entry %04X", n), err)
	}
	return nil
}

// lasting are the attributes of variables that booting needs (UEFI 2.10,
// section 3.3).
const lasting = efi.AttributeNonVolatile | efi.AttributeBootserviceAccess | efi.AttributeRuntimeAccess

// reorder changes BootOrder, if there is anything to change. The library's own
// function refuses to write an order that names an entry which firmware wrote
// badly; that is no reason here.
func (e linuxEFI) reorder(change func([]uint16) []uint16) error {
	data, _, err := efi.ReadVariable(e.ctx, "BootOrder", efi.GlobalVariable)
	if err != nil && !errors.Is(err, efi.ErrVarNotExist) {
		return explainEFI("read BootOrder", err)
	}
	var order []uint16
	for ; len(data) >= 2; data = data[2:] {
		order = append(order, binary.LittleEndian.Uint16(data))
	}
	next := change(slices.Clone(order))
	if slices.Equal(next, order) {
		return nil
	}
	var out []byte
	for _, n := range next {
		out = binary.LittleEndian.AppendUint16(out, n)
	}
	if err := efi.WriteVariable(e.ctx, "BootOrder", efi.GlobalVariable, lasting, out); err != nil {
		return explainEFI("write BootOrder", err)
	}
	return nil
}

func without(order []uint16, n uint16) []uint16 {
	return slices.DeleteFunc(slices.Clone(order), func(m uint16) bool { return m == n })
}

// loadOption makes a boot entry: a partition by its GUID, which is enough for
// firmware to find the disk, and a loader on it (UEFI 2.10, section 3.1.3).
func loadOption(label, loader string, part Partition) (*efi.LoadOption, error) {
	guid, err := efi.DecodeGUIDString(part.UUID)
	if err != nil {
		return nil, fmt.Errorf("partition %d has no proper UUID: %w", part.Number, err)
	}
	if part.Number < 1 || part.LastLBA < part.FirstLBA {
		return nil, fmt.Errorf("partition %d from block %d to %d is none", part.Number, part.FirstLBA, part.LastLBA)
	}
	return &efi.LoadOption{
		Attributes:  efi.LoadOptionActive,
		Description: label,
		FilePath: efi.DevicePath{
			&efi.HardDriveDevicePathNode{
				PartitionNumber: uint32(part.Number),
				PartitionStart:  part.FirstLBA,
				PartitionSize:   part.LastLBA - part.FirstLBA + 1,
				Signature:       efi.GUIDHardDriveSignature(guid),
				MBRType:         efi.GPT,
			},
			efi.FilePathDevicePathNode(`\` + strings.TrimLeft(strings.ReplaceAll(loader, "/", `\`), `\`)),
		},
	}, nil
}

// explainEFI adds what to do (quirk U-06).
func explainEFI(what string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, efi.ErrVarsUnavailable), errors.Is(err, fs.ErrNotExist), errors.Is(err, efi.ErrVarNotExist):
		hint = "; the kernel shows no EFI variables: let the BMC set the boot order"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, efi.ErrVarInsufficientSpace):
		hint = "; the firmware's memory for variables is full: delete boot entries that are not needed in the firmware's set-up, or let the BMC set the boot order"
	case errors.Is(err, unix.EROFS), errors.Is(err, efi.ErrVarWriteProtected), errors.Is(err, efi.ErrVarPermission), errors.Is(err, fs.ErrPermission):
		hint = "; the firmware does not let its variables be written: let the BMC set the boot order"
	}
	return fmt.Errorf("%s: %w%s", what, err, hint)
}
