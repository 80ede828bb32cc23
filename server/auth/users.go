package auth

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"golang.org/x/crypto/bcrypt"

	"bessemer/store"
)

var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// minPassword is the least length of a password that a person chooses.
const minPassword = 8

// Users lists the users; their hashes are for the caller to leave out.
func (a *Auth) Users() ([]*store.User, error) {
	var us []*store.User
	err := a.db.View(func(tx *store.Tx) error {
		for u, err := range store.Users.All(tx) {
			if err != nil {
				return err
			}
			us = append(us, u)
		}
		return nil
	})
	return us, err
}

// User returns one user, or store.ErrNotFound.
func (a *Auth) User(name string) (*store.User, error) { return a.user(name) }

// AddUser adds a user. A name that is taken is store.ErrConflict.
func (a *Auth) AddUser(name, password, role string) error {
	if !userName.MatchString(name) {
		return fmt.Errorf("%w: the name must be 1 to 64 letters, digits and . _ @ -, and begin with a letter or digit", ErrInvalid)
	}
	if err := checkRole(role); err != nil {
		return err
	}
	hash, err := a.hash(password)
	if err != nil {
		return err
	}
	return a.db.Update(func(tx *store.Tx) error {
		if _, err := store.Users.Get(tx, name); err == nil {
			return &store.KeyError{Table: "users", Key: name, Err: store.ErrConflict}
		}
		return store.Users.Put(tx, &store.User{Name: name, Hash: hash, Role: role, CreatedAt: time.Now().UTC()})
	})
}

// ChangeUser gives a user another password or role; "" leaves it. A new
// password revokes the user's tokens.
func (a *Auth) ChangeUser(name, password, role string) error {
	if role != "" {
		if err := checkRole(role); err != nil {
			return err
		}
	}
	hash := ""
	if password != "" {
		var err error
		if hash, err = a.hash(password); err != nil {
			return err
		}
	}
	return a.db.Update(func(tx *store.Tx) error { return change(tx, name, hash, role) })
}

func change(tx *store.Tx, name, hash, role string) error {
	u, err := store.Users.Get(tx, name)
	if err != nil {
		return err
	}
	if role != "" && role != Admin {
		if err := keepAdmin(tx, name); err != nil {
			return err
		}
	}
	if role != "" {
		u.Role = role
	}
	if hash != "" {
		u.Hash = hash
		if err := dropTokens(tx, name); err != nil {
			return err
		}
	}
	return store.Users.Put(tx, u)
}

// RemoveUser removes a user and revokes its tokens.
func (a *Auth) RemoveUser(name string) error {
	return a.db.Update(func(tx *store.Tx) error {
		if _, err := store.Users.Get(tx, name); err != nil {
			return err
		}
		if err := keepAdmin(tx, name); err != nil {
			return err
		}
		if err := dropTokens(tx, name); err != nil {
			return err
		}
		return store.Users.Delete(tx, name)
	})
}

// keepAdmin is an error when no admin would be left without the named user.
func keepAdmin(tx *store.Tx, name string) error {
	for u, err := range store.Users.All(tx) {
		if err != nil {
			return err
		}
		if u.Role == Admin && u.Name != name {
			return nil
		}
	}
	return ErrLastAdmin
}

func (a *Auth) hash(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", fmt.Errorf("%w: the password must be %d to %d bytes long", ErrInvalid, minPassword, maxPassword)
	}
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	h, err := bcrypt.GenerateFromPassword([]byte(password), a.cost)
	if err != nil {
		return "", errors.New("hash password: bcrypt failed")
	}
	return string(h), nil
}

func checkRole(role string) error {
	if role != Admin && role != Reader {
		return fmt.Errorf("%w: the role must be %s or %s", ErrInvalid, Admin, Reader)
	}
	return nil
}
