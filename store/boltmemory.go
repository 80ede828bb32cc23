//go:build linux

package store

import (
	"fmt"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Trim implements space. Pages of the file that were read once stay mapped, and
// count as this process's memory although the system can drop them at any time;
// after a thousand deploys that is most of what is counted. Those that are still
// needed come back from the system's cache, without the disk.
//
// It runs in a read transaction, which keeps the engine from mapping the file
// elsewhere meanwhile: on anything but a mapped file this advice would destroy
// what is there.
func (s *boltSpace) Trim() error {
	return s.run(s.db.View, new(atomic.Pointer[error]), func(tx *bolt.Tx) error {
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, s.db.Info().Data, uintptr(tx.Size()), unix.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("give back the memory of the store's file: %w", errno)
		}
		return nil
	})
}
