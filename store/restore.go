package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// RestoreOptions of [Restore].
type RestoreOptions struct {
	// Force replaces a store that is there already. Its file, and its key if
	// the backup brings another, stay beside the new ones with the ending
	// ".before-restore".
	Force bool
}

const keptAside = ".before-restore"

// Restore puts the store from a backup into the data directory dir. All of
// the backup is verified, down to each record, before anything is replaced. A
// backup without its key needs the store's secret.key in dir.
//
// Errors are ErrExists, ErrLocked, ErrCorrupt, ErrKey and ErrSchema.
func Restore(dir string, r io.Reader, o RestoreOptions) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if exists(filepath.Join(dir, dbFile)) && !o.Force {
		return fmt.Errorf("restore store to %s: %w: restore to another directory, or force it to be replaced", dir, ErrExists)
	}
	b, err := openBackup(r)
	if err != nil {
		return err
	}
	key, err := b.secretKey(dir)
	if err != nil {
		return err
	}
	tmp, err := b.unpack(dir, key)
	if err != nil {
		return err
	}
	if err := install(dir, tmp, key); err != nil {
		return fmt.Errorf("restore store: %w", errors.Join(err, os.Remove(tmp)))
	}
	return nil
}

// secretKey returns the key of the store in the backup.
func (b *backupReader) secretKey(dir string) ([]byte, error) {
	if want := 1 + len(migrations); b.Schema > want {
		return nil, fmt.Errorf("backup has schema %d, this version knows up to %d: %w", b.Schema, want, ErrSchema)
	}
	if b.Key != "" {
		return parseKey(b.Key)
	}
	key, err := loadKey(dir)
	if err != nil {
		return nil, fmt.Errorf("the backup does not hold its secret key: %w", err)
	}
	return key, nil
}

// unpack writes the backup's file into dir under another name and verifies it.
func (b *backupReader) unpack(dir string, key []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, "restore-*.tmp")
	if err != nil {
		return "", fmt.Errorf("restore store: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(b.copyTo(f), f.Sync(), f.Close()); err != nil {
		return "", err
	}
	problems, err := checkFile(context.Background(), f.Name(), key)
	if err != nil {
		return "", fmt.Errorf("verify backup: %w", err)
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("verify backup: %w: %s", ErrCorrupt, problems[0])
	}
	if err := markRestored(f.Name(), b.Created); err != nil {
		return "", fmt.Errorf("mark store as restored: %w", err)
	}
	return f.Name(), nil
}

// install puts the new file and key in place, the key first: should it end in
// between, the old file asks for its key, which lies beside it.
func install(dir, tmp string, key []byte) error {
	db, keyPath := filepath.Join(dir, dbFile), filepath.Join(dir, keyFile)
	if err := keepAside(db); err != nil {
		return err
	}
	old, err := os.ReadFile(keyPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if have, err := parseKey(string(old)); err != nil || hex.EncodeToString(have) != hex.EncodeToString(key) {
		if err := replaceKey(dir, keyPath, key); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, db); err != nil {
		return err
	}
	return syncDir(dir)
}

func replaceKey(dir, path string, key []byte) error {
	if err := keepAside(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeKey(dir, key)
}

// keepAside gives the file at path, if there is one, a second name.
func keepAside(path string) error {
	if err := os.Remove(path + keptAside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.Link(path, path+keptAside)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
