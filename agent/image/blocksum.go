package image

import (
	"crypto/sha256"
	"hash"
)

type sum = [sha256.Size]byte

func sumOf(p []byte) sum { return sha256.Sum256(p) }

// hasher hashes one block that arrives in parts.
type hasher struct {
	h hash.Hash
	n int
}

func (s *hasher) add(p []byte) {
	if s.h == nil {
		s.h = sha256.New()
	}
	s.h.Write(p)
	s.n += len(p)
}

// sum returns the block's hash and begins the next block.
func (s *hasher) sum() (out sum) {
	s.h.Sum(out[:0])
	s.h.Reset()
	s.n = 0
	return out
}
