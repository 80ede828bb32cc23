package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Every value in the space ends with a CRC32C over its key and itself, so that
// damage is told from a wrong key, and found without any key. Records are
// sealed besides; before the checksum they have
//
//	version (1) | revision (8, big endian) | nonce (12) | AES-256-GCM ciphertext and tag
//
// with version, revision and key as associated data: a record moved to another
// key, or put back to an older revision's header, does not open.
const (
	sealVersion = 1
	revAt       = 1
	nonceAt     = revAt + 8
	nonceLen    = 12
	boxAt       = nonceAt + nonceLen
	tagLen      = 16
	sumLen      = 4
	sealedMin   = boxAt + tagLen + sumLen
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// withSum appends to value the checksum of it and its key.
func withSum(key, value []byte) []byte {
	return binary.BigEndian.AppendUint32(value, sumOf(key, value))
}

func sumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// checkSum returns raw without its checksum, or ErrCorrupt.
func checkSum(key, raw []byte) ([]byte, error) {
	n := len(raw) - sumLen
	if n < 0 {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(raw))
	}
	if binary.BigEndian.Uint32(raw[n:]) != sumOf(key, raw[:n]) {
		return nil, fmt.Errorf("%w: its checksum is wrong", ErrCorrupt)
	}
	return raw[:n], nil
}

// A sealer seals records with the store's secret key.
type sealer struct{ aead cipher.AEAD }

func newSealer(key []byte) (*sealer, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use secret key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use secret key: %w", err)
	}
	return &sealer{aead}, nil
}

// seal returns the value to store under key.
func (s *sealer) seal(key []byte, rev uint64, plain []byte) []byte {
	out := make([]byte, boxAt, boxAt+len(plain)+tagLen+sumLen)
	out[0] = sealVersion
	binary.BigEndian.PutUint64(out[revAt:], rev)
	_, _ = rand.Read(out[nonceAt:boxAt])
	out = s.aead.Seal(out, out[nonceAt:boxAt], plain, associated(out, key))
	return withSum(key, out)
}

// open returns what was sealed under key.
func (s *sealer) open(key, raw []byte) ([]byte, error) {
	body, err := checkSealed(key, raw)
	if err != nil {
		return nil, err
	}
	plain, err := s.aead.Open(nil, body[nonceAt:boxAt], body[boxAt:], associated(body, key))
	if err != nil {
		return nil, fmt.Errorf("%w: it does not open with this store's secret key", ErrCorrupt)
	}
	return plain, nil
}

// checkSealed checks all that can be checked of a sealed value without the
// secret key, and returns it without its checksum.
func checkSealed(key, raw []byte) ([]byte, error) {
	if len(raw) < sealedMin {
		return nil, fmt.Errorf("%w: %d bytes are too few", ErrCorrupt, len(raw))
	}
	body, err := checkSum(key, raw)
	if err != nil {
		return nil, err
	}
	if body[0] != sealVersion {
		return nil, fmt.Errorf("record format %d: %w", body[0], ErrSchema)
	}
	return body, nil
}

// revision returns the revision in a sealed value that has been checked.
func revision(body []byte) uint64 { return binary.BigEndian.Uint64(body[revAt:]) }

func associated(header, key []byte) []byte {
	return append(append(make([]byte, 0, nonceAt+len(key)), header[:nonceAt]...), key...)
}
