package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"golang.org/x/crypto/bcrypt"

	"bessemer/store"
)

// maxPassword is bcrypt's limit in bytes: what comes after is not looked at,
// so longer ones are refused.
const maxPassword = 72

// Verify returns the identity of a user by its password. source is the address
// of the client, for the limit on guesses.
func (a *Auth) Verify(source, user, password string) (Identity, error) {
	k := a.cache.sum(user, password)
	if id, ok := a.cached(k); ok {
		return id, nil
	}
	if !a.limiter.allow(source) {
		return Identity{}, ErrSlowDown
	}
	a.slots <- struct{}{}
	defer func() { <-a.slots }()
	if id, ok := a.cached(k); ok { // another request has just verified it
		return id, nil
	}
	id, hash, err := a.check(user, password)
	if errors.Is(err, ErrDenied) {
		a.limiter.failed(source)
	}
	if err == nil {
		a.cache.put(k, user, hash)
	}
	return id, err
}

// check compares a password with the user's hash, or with one that nobody
// has the password of, so that the time does not tell which users exist.
func (a *Auth) check(user, password string) (Identity, string, error) {
	u, err := a.user(user)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Identity{}, "", fmt.Errorf("read user: %w", err)
	}
	hash := a.dummy()
	if u != nil {
		hash = []byte(u.Hash)
	}
	usable := u != nil && password != "" && len(password) <= maxPassword
	if !usable {
		password = "."
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !usable {
		return Identity{}, "", ErrDenied
	}
	return Identity{User: u.Name, Role: u.Role, hash: u.Hash}, u.Hash, nil
}

func (a *Auth) cached(k [32]byte) (Identity, bool) {
	e, ok := a.cache.get(k)
	if !ok {
		return Identity{}, false
	}
	u, err := a.user(e.user)
	if err != nil || u.Hash != e.hash {
		return Identity{}, false
	}
	return Identity{User: u.Name, Role: u.Role, hash: u.Hash}, true
}

func (a *Auth) user(name string) (*store.User, error) {
	var u *store.User
	err := a.db.View(func(tx *store.Tx) (err error) {
		u, err = store.Users.Get(tx, name)
		return err
	})
	return u, err
}

// sum is the key under which a verified user and password are remembered. It
// is keyed, so that the cache in memory says nothing about the password.
func (c *cache) sum(user, password string) (k [32]byte) {
	h := hmac.New(sha256.New, c.key[:])
	fmt.Fprintf(h, "%d:%s:%s", len(user), user, password)
	h.Sum(k[:0])
	return k
}
