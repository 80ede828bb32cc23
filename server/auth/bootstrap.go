package auth

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"

	"bessemer/store"
)

// SecretFile is the name of the file in the data directory that holds the
// first admin's password; the command line reads it there.
const SecretFile = "admin.secret"

// Bootstrap makes the user admin with a random password when the store has no
// user at all, and writes the password, readable by the owner only, into the
// data directory. It returns the file's path, "" when there were users. After
// a restore, when the file that lies there is not of the admin in the backup,
// the admin gets a new password: whoever restores owns the store.
//
// The file is written before the user is kept: a crash between the two leaves
// a file that the next start replaces, never a user whose password nobody has.
func Bootstrap(db *store.DB, dataDir string) (path string, err error) {
	path = filepath.Join(dataDir, SecretFile)
	wanted := false
	err = db.View(func(tx *store.Tx) (err error) {
		wanted, err = wantsAdmin(tx, path)
		return err
	})
	if err != nil || !wanted {
		return "", err
	}
	password := rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	if err := writeSecret(path, password+"\n"); err != nil {
		return "", err
	}
	return path, db.Update(func(tx *store.Tx) error {
		if err := dropTokens(tx, "admin"); err != nil {
			return err
		}
		return store.Users.Put(tx, &store.User{Name: "admin", Hash: string(hash), Role: Admin, CreatedAt: time.Now().UTC()})
	})
}

// wantsAdmin says whether nobody would know how to log in.
func wantsAdmin(tx *store.Tx, path string) (bool, error) {
	if store.Users.Count(tx) == 0 {
		return true, nil
	}
	if _, restored, err := tx.Restored(); err != nil || !restored {
		return false, err
	}
	u, err := store.Users.Get(tx, "admin")
	if errors.Is(err, store.ErrNotFound) {
		return false, nil // removed for good
	}
	if err != nil {
		return false, err
	}
	text, _ := os.ReadFile(path)
	return bcrypt.CompareHashAndPassword([]byte(u.Hash), bytes.TrimSpace(text)) != nil, nil
}

// writeSecret replaces a file by one that was never readable by others, not
// even for a moment, and that is on the disk, under its name, when it returns.
func writeSecret(path, content string) error {
	if err := replaceFile(path, content); err != nil {
		return fmt.Errorf("write the admin's password: %w", err)
	}
	return nil
}

func replaceFile(path, content string) (err error) {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	_ = os.Remove(tmp) // of a start that was killed
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	_, werr := f.WriteString(content)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
