package redfish

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"bessemer/bmc"
)

func TestLogin(t *testing.T) {
	t.Run("expired session (R-10)", func(t *testing.T) {
		b := newFakeBMC(t)
		d := b.open(t)
		for range 3 {
			if _, err := d.PowerState(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			clear(b.tokens)
			b.mu.Unlock()
		}
		if b.made != 3 {
			t.Errorf("got %d sessions, want 3", b.made)
		}
	})
	t.Run("one try of a wrong password (R-11)", func(t *testing.T) {
		b := newFakeBMC(t)
		_, err := b.open(t, "redfish_password", "wrong").PowerState(t.Context())
		if !errors.Is(err, bmc.ErrCredentials) {
			t.Errorf("got %v, want ErrCredentials", err)
		}
		if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 || len(b.requests) != 2 {
			t.Errorf("got %v, want the root and one login", b.requests)
		}
	})
	t.Run("session is ended", func(t *testing.T) {
		b := newFakeBMC(t)
		d := b.open(t)
		if _, err := d.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil || len(b.tokens) != 0 {
			t.Errorf("got %v with %d sessions left, want none", err, len(b.tokens))
		}
	})
	t.Run("only sessions, and none left (R-06)", func(t *testing.T) {
		_, err := newFakeBMC(t, "R-06").open(t, "redfish_auth_type", "session").PowerState(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no room for another session") {
			t.Errorf("got %v, want that there is no room", err)
		}
	})
	t.Run("root wants a login", func(t *testing.T) {
		b := newFakeBMC(t)
		b.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if _, _, ok := r.BasicAuth(); strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1" && !ok {
				fail(w, http.StatusUnauthorized, "", "")
				return true
			}
			return false
		}
		if _, err := b.open(t).PowerState(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A note remembers a session as the store does.
type note struct{ url string }

func (n *note) Left() string      { return n.url }
func (n *note) Opened(url string) { n.url = url }
func (n *note) Ended(url string) {
	if n.url == url {
		n.url = ""
	}
}

// A killed process leaves its session open; the next one ends it.
func TestSessionThatWasLeftOpen(t *testing.T) {
	const sessions = "/redfish/v1/SessionService/Sessions/"
	read := func(t *testing.T, b *fakeBMC, changes ...string) *driver {
		t.Helper()
		d := b.open(t, changes...)
		if _, err := d.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
		return d
	}
	t.Run("is ended", func(t *testing.T) {
		b := newFakeBMC(t)
		b.noted = &note{}
		read(t, b)
		d := read(t, b)
		if len(b.tokens) != 1 || !b.tokens["token-2"] {
			t.Errorf("sessions %v are open, want the second only", b.tokens)
		}
		if err := d.Close(); err != nil || b.noted.Left() != "" {
			t.Errorf("after the end %q is noted, %v", b.noted.Left(), err)
		}
	})
	t.Run("and takes the last place", func(t *testing.T) {
		b := newFakeBMC(t)
		b.noted, b.room = &note{}, 1
		read(t, b)
		read(t, b)
		if len(b.tokens) != 1 || !b.tokens["token-2"] {
			t.Errorf("sessions %v are open, want the second only", b.tokens)
		}
	})
	for name, left := range map[string]string{
		"of somebody else":          sessions + "admin-1",
		"that the controller ended": sessions + "token-9",
		"at another controller":     "https://elsewhere:443" + sessions + "admin-1",
		"noted badly":               "rubbish",
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBMC(t)
			if strings.HasPrefix(left, "/") {
				left = b.URL + left
			}
			b.noted = &note{left}
			b.tokens["admin-1"] = true
			d := read(t, b)
			if !b.tokens["admin-1"] || len(b.tokens) != 2 {
				t.Errorf("sessions %v are open, want the other one's and ours", b.tokens)
			}
			if want := d.conn.s.origin.String() + sessions + "token-1"; b.noted.Left() != want {
				t.Errorf("%q is noted, want %q", b.noted.Left(), want)
			}
		})
	}
}
