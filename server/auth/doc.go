// Package auth says who a request comes from. Users have a password (bcrypt)
// and a role; a request names its user with Basic authentication, or with an
// opaque token that a login has given.
//
// Promises: passwords and tokens are kept only as hashes; a user that is
// removed or changes its password is locked out, tokens included, from the
// moment that the change returns; an unknown user and a wrong password get the
// same answer after the same time; guessing is slowed down per source;
// identity that a client or proxy claims in other headers is never looked at.
package auth
