package hw

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// FakeEFI is boot entries in memory; the zero value has none. It outlives the
// Fake that holds it, as NVRAM outlives a reboot.
type FakeEFI struct {
	// Full makes SetEntry fail as when the NVRAM is full (U-06).
	Full bool
	// Changed, if set, is called after each change of entries or order, so
	// that they can be kept.
	Changed func()

	mu      sync.Mutex
	entries []BootEntry
	order   []int
}

var _ EFI = (*FakeEFI)(nil)

// NewFakeEFI returns variables as they were kept.
func NewFakeEFI(entries []BootEntry, order []int) *FakeEFI {
	return &FakeEFI{entries: slices.Clone(entries), order: slices.Clone(order)}
}

// Entries implements EFI.
func (e *FakeEFI) Entries() ([]BootEntry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.entries), nil
}

// Order returns BootOrder.
func (e *FakeEFI) Order() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order)
}

// SetEntry implements EFI.
func (e *FakeEFI) SetEntry(label, loader string, part Partition) (int, error) {
	n, err := e.setEntry(label, loader, part)
	e.changed(err)
	return n, err
}

func (e *FakeEFI) changed(err error) {
	if err == nil && e.Changed != nil {
		e.Changed()
	}
}

func (e *FakeEFI) setEntry(label, loader string, part Partition) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Full {
		return 0, errors.New("write boot entry: no space left on device")
	}
	for _, old := range slices.Clone(e.entries) {
		if old.Label == label {
			e.remove(old.Number)
		}
	}
	n := 0
	for slices.ContainsFunc(e.entries, func(b BootEntry) bool { return b.Number == n }) {
		n++
	}
	e.entries = append(e.entries, BootEntry{Number: n, Label: label, Active: true, PartUUID: part.UUID, Loader: loader})
	slices.SortFunc(e.entries, func(a, b BootEntry) int { return cmp.Compare(a.Number, b.Number) })
	e.order = append([]int{n}, e.order...)
	return n, nil
}

// Delete implements EFI.
func (e *FakeEFI) Delete(number int) error {
	err := e.delete(number)
	e.changed(err)
	return err
}

func (e *FakeEFI) delete(number int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.remove(number) {
		return fmt.Errorf("delete boot entry %04X: there is none", number)
	}
	return nil
}

func (e *FakeEFI) remove(number int) bool {
	before := len(e.entries)
	e.entries = slices.DeleteFunc(e.entries, func(b BootEntry) bool { return b.Number == number })
	e.order = slices.DeleteFunc(e.order, func(n int) bool { return n == number })
	return len(e.entries) < before
}
