package image

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
)

var (
	// ErrNoChecksum: an image without one is not written, since nobody could
	// say that the disk holds what was meant.
	ErrNoChecksum = errors.New("no usable checksum")
	// ErrChecksum: the file is not the one that was meant.
	ErrChecksum = errors.New("checksum mismatch")
)

// A Checksum is what the bytes of an image file must hash to.
type Checksum struct {
	Algorithm string // sha256 or sha512
	Hex       string
}

// ParseChecksum finds the algorithm of a hex checksum by its length.
func ParseChecksum(s string) (Checksum, error) {
	c := Checksum{Hex: strings.ToLower(strings.TrimSpace(s))}
	switch len(c.Hex) {
	case sha256.Size * 2:
		c.Algorithm = "sha256"
	case sha512.Size * 2:
		c.Algorithm = "sha512"
	case 32:
		return c, fmt.Errorf("%w: an MD5 checksum proves nothing any more; give sha256 or sha512", ErrNoChecksum)
	default:
		return c, fmt.Errorf("%w: %d characters are neither sha256 nor sha512 in hex", ErrNoChecksum, len(c.Hex))
	}
	return c, c.valid()
}

func (c Checksum) valid() error {
	h := c.hash()
	switch {
	case c.Algorithm == "" && c.Hex == "":
		return fmt.Errorf("%w: none is given; set image_os_hash_algo and image_os_hash_value", ErrNoChecksum)
	case h == nil:
		return fmt.Errorf("%w: algorithm %q is not sha256 or sha512", ErrNoChecksum, c.Algorithm)
	}
	b, err := hex.DecodeString(c.Hex)
	if err != nil || len(b) != h.Size() {
		return fmt.Errorf("%w: the value is not the %d hex digits of %s", ErrNoChecksum, 2*h.Size(), c.Algorithm)
	}
	return nil
}

// hash returns a new hash of the algorithm, or nil.
func (c Checksum) hash() hash.Hash {
	switch strings.ToLower(c.Algorithm) {
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	}
	return nil
}

func (c Checksum) compare(sum []byte) error {
	if got := hex.EncodeToString(sum); got != strings.ToLower(c.Hex) {
		return fmt.Errorf("%w: the file has %s %s, expected %s; it was changed on the server or damaged on the way",
			ErrChecksum, c.Algorithm, got, strings.ToLower(c.Hex))
	}
	return nil
}
