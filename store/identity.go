package store

import "time"

// A User may use the API.
type User struct {
	Name      string    `json:"name"`
	Hash      string    `json:"hash"` // bcrypt
	Role      string    `json:"role"` // admin or reader
	CreatedAt time.Time `json:"created_at"`
}

// Users is the table of users, by name.
var Users = NewTable("users", func(u *User) string { return u.Name }).cached()

// A Token stands for a user until it expires; only its hash is kept.
type Token struct {
	Hash    string    `json:"hash"` // hex SHA-256 of the token
	User    string    `json:"user"`
	Expires time.Time `json:"expires"`
}

// Tokens is the table of tokens, by hash.
var Tokens = NewTable("tokens", func(t *Token) string { return t.Hash },
	Index("user", func(t *Token) []string { return []string{t.User} }),
).cached()
