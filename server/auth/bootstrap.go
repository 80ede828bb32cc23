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
// even for a moment, and that is on the disk when it returns.
func writeSecret(path, content string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+SecretFile+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the admin's password: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write the admin's password: %w", err)
		}
	}()
	_, werr := f.WriteString(content)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
