package auth

import (
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
// data directory. It returns the file's path, "" when there were users.
//
// The file is written before the user is kept: a crash between the two leaves
// a file that the next start replaces, never a user whose password nobody has.
func Bootstrap(db *store.DB, dataDir string) (path string, err error) {
	some := false
	err = db.View(func(tx *store.Tx) error {
		for _, err := range store.Users.All(tx) {
			some = true
			return err
		}
		return nil
	})
	if err != nil || some {
		return "", err
	}
	password := rand.Text()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	path = filepath.Join(dataDir, SecretFile)
	if err := writeSecret(path, password+"\n"); err != nil {
		return "", err
	}
	return path, db.Update(func(tx *store.Tx) error {
		return store.Users.Put(tx, &store.User{Name: "admin", Hash: string(hash), Role: Admin, CreatedAt: time.Now().UTC()})
	})
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
