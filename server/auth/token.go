package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"bessemer/store"
)

// maxTokens is how many tokens a user may have; the one that expires first
// makes room, so that logins cannot fill the store.
const maxTokens = 50

// Login gives a token for a user and its password. The token is told here
// only; the store keeps its hash. A token cannot be used to get another one.
func (a *Auth) Login(source, user, password string) (token string, expires time.Time, err error) {
	if _, err := a.Verify(source, user, password); err != nil {
		return "", time.Time{}, err
	}
	token = rand.Text() + rand.Text()
	expires = time.Now().Add(a.tokenTTL).UTC().Truncate(time.Second)
	t := &store.Token{Hash: tokenHash(token), User: user, Expires: expires}
	err = a.db.Update(func(tx *store.Tx) error {
		if _, err := store.Users.Get(tx, user); err != nil {
			return ErrDenied
		}
		if err := prune(tx, user); err != nil {
			return err
		}
		return store.Tokens.Put(tx, t)
	})
	return token, expires, err
}

// prune removes a user's expired tokens, and its oldest when there are too
// many.
func prune(tx *store.Tx, user string) error {
	var ts []*store.Token
	for t, err := range store.Tokens.Where(tx, "user", user) {
		if err != nil {
			return err
		}
		ts = append(ts, t)
	}
	slices.SortFunc(ts, func(a, b *store.Token) int { return a.Expires.Compare(b.Expires) })
	for i, t := range ts {
		if time.Now().After(t.Expires) || len(ts)-i >= maxTokens {
			if err := store.Tokens.Delete(tx, t.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

// Token returns the identity that a token stands for.
func (a *Auth) Token(token string) (Identity, error) { return a.tokenByHash(tokenHash(token)) }

func (a *Auth) tokenByHash(hash string) (Identity, error) {
	var id Identity
	err := a.db.View(func(tx *store.Tx) error {
		t, err := store.Tokens.Get(tx, hash)
		if err != nil {
			return err
		}
		if time.Now().After(t.Expires) {
			return ErrDenied
		}
		u, err := store.Users.Get(tx, t.User)
		if err != nil {
			return err
		}
		id = Identity{User: u.Name, Role: u.Role, Token: hash}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = ErrDenied
	}
	return id, err
}

// Logout makes a token, by its hash, worthless. One that is so already is no
// error.
func (a *Auth) Logout(hash string) error {
	err := a.db.Update(func(tx *store.Tx) error { return store.Tokens.Delete(tx, hash) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// tokenHash is what is kept of a token. Tokens are 260 bits of randomness, so
// a plain hash is enough.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// dropTokens removes all tokens of a user.
func dropTokens(tx *store.Tx, user string) error {
	var hashes []string
	for t, err := range store.Tokens.Where(tx, "user", user) {
		if err != nil {
			return err
		}
		hashes = append(hashes, t.Hash)
	}
	for _, h := range hashes {
		if err := store.Tokens.Delete(tx, h); err != nil {
			return fmt.Errorf("revoke token: %w", err)
		}
	}
	return nil
}
