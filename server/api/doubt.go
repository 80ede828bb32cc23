package api

import (
	"errors"

	"bessemer/store"
)

// inDoubt returns the error of a change of nodes or their ports. A disk that
// failed may have taken the change all the same, so whoever keeps in memory
// what the nodes are is told as if it had.
func (c *call) inDoubt(err error, nodes ...string) error {
	if errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrDisk) {
		for _, n := range nodes {
			c.api.conductor.NodeChanged(n)
		}
	}
	return err
}
