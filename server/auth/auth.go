package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"bessemer/store"
)

// Modes of authentication.
const (
	Basic = "basic" // user and password, or a token
	None  = "none"  // everybody is admin; for loopback listeners only
)

// Roles of users.
const (
	Admin  = "admin"  // may do everything
	Reader = "reader" // may read, secrets masked
)

var (
	// ErrDenied is returned for a wrong user, password or token; which of
	// them was wrong is not told.
	ErrDenied = errors.New("incorrect user name or password")
	// ErrSlowDown is returned to a source that has guessed too often.
	ErrSlowDown = errors.New("too many failed logins from this address")
	// ErrInvalid is returned for a user that cannot be kept as asked.
	ErrInvalid = errors.New("invalid user")
	// ErrLastAdmin is returned when nobody would be left to administer.
	ErrLastAdmin = errors.New("the last admin cannot be removed or demoted")
)

// Config of [New]. Zero values are the defaults.
type Config struct {
	DB   *store.DB
	Mode string // Basic (default) or None
	Log  zerolog.Logger

	TokenTTL time.Duration // how long a token is valid; default 12 h
	CacheTTL time.Duration // how long a verified Basic header is remembered; default 5 min
	Cost     int           // bcrypt's; default 10
}

// An Identity is who a request comes from.
type Identity struct {
	User  string
	Role  string
	Token string // the hash of the token that was used, "" for Basic

	hash string // of the password that was verified
}

// Admin says whether the identity may change things.
func (i Identity) Admin() bool { return i.Role == Admin }

// Auth authenticates requests.
type Auth struct {
	db       *store.DB
	log      zerolog.Logger
	mode     string
	tokenTTL time.Duration
	cost     int
	dummy    func() []byte // a hash that nobody has the password of
	slots    chan struct{} // bounds how many passwords are hashed at once

	cache   *cache
	limiter limiter
}

// New returns an Auth over the users in the store.
func New(c Config) (*Auth, error) {
	if c.Mode == "" {
		c.Mode = Basic
	}
	if c.Mode != Basic && c.Mode != None {
		return nil, fmt.Errorf("authentication %q is not one of %s, %s", c.Mode, Basic, None)
	}
	a := &Auth{
		db: c.DB, log: c.Log, mode: c.Mode,
		tokenTTL: orDefault(c.TokenTTL, 12*time.Hour),
		cost:     c.Cost,
		slots:    make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
	}
	if a.cost == 0 {
		a.cost = bcrypt.DefaultCost
	}
	a.cache = newCache(orDefault(c.CacheTTL, 5*time.Minute))
	// Made by the first guess, since it takes as long as all else at a start.
	a.dummy = sync.OnceValue(func() []byte {
		hash, _ := bcrypt.GenerateFromPassword([]byte(rand.Text()), a.cost) // fails for costs and lengths that this has not
		return hash
	})
	return a, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}

// Mode is the mode of authentication: Basic or None.
func (a *Auth) Mode() string { return a.mode }

// Valid says whether an identity would still be accepted: long requests ask
// now and then.
func (a *Auth) Valid(id Identity) bool {
	if a.mode == None {
		return true
	}
	now := Identity{}
	var err error
	if id.Token != "" {
		now, err = a.tokenByHash(id.Token)
	} else if u, uerr := a.user(id.User); uerr == nil {
		now = Identity{User: u.Name, Role: u.Role, hash: u.Hash}
	}
	return err == nil && now == id
}

type identityKey struct{}

// From returns the identity that [Auth.Middleware] has put into ctx.
func From(ctx context.Context) (Identity, bool) {
	i, ok := ctx.Value(identityKey{}).(Identity)
	return i, ok
}

// With returns a context that carries i.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// cache remembers which Basic headers were verified, by their keyed hash, and
// against which password hash: as soon as the user's record has another one,
// the entry is worth nothing.
type cache struct {
	mu      sync.Mutex
	ttl     time.Duration
	key     [32]byte
	entries map[[32]byte]entry
}

type entry struct {
	user, hash string
	expires    time.Time
}

const maxCached = 1024

func newCache(ttl time.Duration) *cache {
	c := &cache{ttl: ttl, entries: map[[32]byte]entry{}}
	_, _ = rand.Read(c.key[:])
	return c
}

func (c *cache) get(k [32]byte) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if ok && time.Now().After(e.expires) {
		delete(c.entries, k)
		return entry{}, false
	}
	return e, ok
}

func (c *cache) put(k [32]byte, user, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= maxCached {
		clear(c.entries)
	}
	c.entries[k] = entry{user, hash, time.Now().Add(c.ttl)}
}
