package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keyFile is the name of the file in the data directory that holds the secret
// key: 32 bytes in hex. Whoever has it and the store's file can read all that
// the appliance knows.
const keyFile = "secret.key"

const keyLen = 32

// loadKey reads the secret key of the store in dir.
func loadKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w: put back the copy of this file that belongs to the store, or restore a backup that holds its key", path, ErrKey)
	}
	if err != nil {
		return nil, fmt.Errorf("read secret key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read %s: mode %04o lets others read it: run chmod 600 on it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read secret key: %w", err)
	}
	key, err := parseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return key, nil
}

func parseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keyLen {
		return nil, fmt.Errorf("%w: it is not %d hex digits", ErrKey, 2*keyLen)
	}
	return key, nil
}

// loadOrCreateKey reads the secret key of dir, where there is no store yet,
// or makes one.
func loadOrCreateKey(dir string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(dir, keyFile)); err == nil {
		return loadKey(dir)
	}
	key := make([]byte, keyLen)
	_, _ = rand.Read(key)
	if err := writeKey(dir, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return loadKey(dir) // another process may have been faster
}

// writeKey creates the key file. It appears whole or not at all, and never in
// place of another.
func writeKey(dir string, key []byte) error {
	tmp := filepath.Join(dir, "."+keyFile+"."+hex.EncodeToString(randomBytes(6)))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write secret key: %w", err)
	}
	defer os.Remove(tmp)
	_, err = fmt.Fprintf(f, "%x\n", key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write secret key: %w", err)
	}
	if err := os.Link(tmp, filepath.Join(dir, keyFile)); err != nil {
		return fmt.Errorf("write secret key: %w", err)
	}
	return syncDir(dir)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// syncDir makes renames and new names in dir last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
