package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Moment is when a write transaction is made to fail.
type Moment string

// Moments.
const (
	// BeforeWrite: nothing of the transaction reaches the disk.
	BeforeWrite Moment = "before"
	// AfterWrite: all of it does, and its writer is told that it failed, as
	// when the disk has lost its last answer.
	AfterWrite Moment = "after"
)

// A Fault decides for tests what becomes of the n-th write transaction, from 1
// on, since the store was opened: at each moment, nil lets it go on.
type Fault func(n uint64, when Moment) error

// A faultySpace is a space on a disk that fails when it is told to.
type faultySpace struct {
	space
	fault Fault
	n     atomic.Uint64
}

// Update implements space.
func (s *faultySpace) Update(fn func(spaceTx) error) error {
	n := s.n.Add(1)
	if err := s.fault(n, BeforeWrite); err != nil {
		return diskError(err)
	}
	if err := s.space.Update(fn); err != nil {
		return err
	}
	return diskError(s.fault(n, AfterWrite))
}

// diskErrors are the refusals of a disk to write, and what each is to us.
var diskErrors = []struct {
	cause syscall.Errno
	kind  error
}{
	{unix.ENOSPC, ErrNoSpace},
	{unix.EDQUOT, ErrNoSpace},
	{unix.EFBIG, ErrNoSpace},
	{unix.EIO, ErrDisk},
	{unix.EROFS, ErrDisk},
}

// diskError gives an error that a disk's refusal is behind its kind, and says
// what to do. Other errors it leaves alone.
func diskError(err error) error {
	for _, d := range diskErrors {
		if !errors.Is(err, d.cause) || errors.Is(err, d.kind) {
			continue
		}
		if d.kind == ErrNoSpace {
			return fmt.Errorf("write store: %w: %w: make room in the data directory; nothing that was acknowledged is lost, and the appliance goes on by itself", ErrNoSpace, err)
		}
		return fmt.Errorf("write store: %w: %w: look at the kernel's log and the disk; nothing that was acknowledged is lost", ErrDisk, err)
	}
	return err
}

// boltTexts begin those errors of bbolt that hold only the text of the
// system's.
var boltTexts = []string{"file resize error: ", "file sync error: "}

// boltError gives such an error its cause back.
func boltError(err error) error {
	if err == nil || !slices.ContainsFunc(boltTexts, func(s string) bool { return strings.HasPrefix(err.Error(), s) }) {
		return err
	}
	for _, d := range diskErrors {
		if strings.HasSuffix(err.Error(), ": "+d.cause.Error()) {
			return fmt.Errorf("%w (%w)", err, d.cause)
		}
	}
	return err
}
