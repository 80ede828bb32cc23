package hw

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// openTries and openPause bound how long a disk may be in use by others: the
// kernel reads its partitions when it appears or was written to, and udev
// looks into them (quirk K-14).
const (
	openTries = 20
	openPause = 500 * time.Millisecond
)

// patiently repeats f while the disk is busy.
func patiently[T any](pause time.Duration, f func() (T, error)) (v T, err error) {
	for range openTries {
		if v, err = f(); !errors.Is(err, syscall.EBUSY) {
			return v, err
		}
		time.Sleep(pause)
	}
	return v, fmt.Errorf("%w after %v: another part of the kernel holds it (RAID, LVM, a mounted file system)", err, openTries*pause)
}
