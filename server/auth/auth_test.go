package auth

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"

	"bessemer/store"
	"bessemer/store/storetest"
)

func open(t *testing.T) *Auth {
	t.Helper()
	a, err := New(Config{DB: storetest.Open(t), Cost: bcrypt.MinCost, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func add(t *testing.T, a *Auth, name, password, role string) {
	t.Helper()
	if err := a.AddUser(name, password, role); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	a := open(t)
	add(t, a, "ann", "correct horse", Admin)
	tests := []struct {
		name, user, password string
		want                 error
	}{
		{"right", "ann", "correct horse", nil},
		{"right again, from the cache", "ann", "correct horse", nil},
		{"wrong password", "ann", "wrong", ErrDenied},
		{"unknown user", "bob", "correct horse", ErrDenied},
		{"empty password", "ann", "", ErrDenied},
		{"empty user", "", "correct horse", ErrDenied},
		{"too long for bcrypt", "ann", strings.Repeat("x", 73), ErrDenied},
		{"huge", "ann", strings.Repeat("x", 1<<20), ErrDenied},
		{"the password that stands in for unusable ones", "ann", ".", ErrDenied},
		{"user and password glued otherwise", "annc", "orrect horse", ErrDenied},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, err := a.Verify("192.0.2.1", tt.user, tt.password)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err == nil && (id.User != "ann" || !id.Admin()) {
				t.Errorf("got %+v", id)
			}
		})
	}
}

// What is taken away from a user works at once, although verified passwords
// are remembered.
func TestChangesLockOutAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Auth) error
	}{
		{"password", func(a *Auth) error { return a.ChangeUser("bob", "another password", "") }},
		{"removal", func(a *Auth) error { return a.RemoveUser("bob") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := open(t)
			add(t, a, "root", "password of root", Admin)
			add(t, a, "bob", "correct horse", Reader)
			token, _, err := a.Login("192.0.2.1", "bob", "correct horse")
			if err != nil {
				t.Fatal(err)
			}
			if id, err := a.Token(token); err != nil || id.User != "bob" || id.Role != Reader {
				t.Fatalf("fresh token: %+v, %v", id, err)
			}
			byToken, _ := a.Token(token)
			byPassword, _ := a.Verify("192.0.2.1", "bob", "correct horse")
			if !a.Valid(byToken) || !a.Valid(byPassword) {
				t.Error("a fresh identity is not valid")
			}
			if err := tt.change(a); err != nil {
				t.Fatal(err)
			}
			if a.Valid(byToken) || a.Valid(byPassword) {
				t.Error("an identity is still valid")
			}
			if _, err := a.Token(token); !errors.Is(err, ErrDenied) {
				t.Errorf("token afterwards: %v", err)
			}
			if _, err := a.Verify("192.0.2.1", "bob", "correct horse"); !errors.Is(err, ErrDenied) {
				t.Errorf("password afterwards: %v", err)
			}
		})
	}
}

func TestRoleChangeReachesTokensAndCache(t *testing.T) {
	a := open(t)
	add(t, a, "root", "password of root", Admin)
	add(t, a, "bob", "correct horse", Admin)
	token, _, _ := a.Login("192.0.2.1", "bob", "correct horse")
	if err := a.ChangeUser("bob", "", Reader); err != nil {
		t.Fatal(err)
	}
	for name, get := range map[string]func() (Identity, error){
		"token": func() (Identity, error) { return a.Token(token) },
		"basic": func() (Identity, error) { return a.Verify("192.0.2.1", "bob", "correct horse") },
	} {
		if id, err := get(); err != nil || id.Role != Reader {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}

func TestTokenExpiresAndLogout(t *testing.T) {
	a := open(t)
	add(t, a, "bob", "correct horse", Admin)
	token, expires, _ := a.Login("192.0.2.1", "bob", "correct horse")
	if d := time.Until(expires); d < 11*time.Hour || d > 12*time.Hour {
		t.Errorf("expires in %v", d)
	}
	id, _ := a.Token(token)
	if err := a.Logout(id.Token); err != nil {
		t.Fatal(err)
	}
	if err := a.Logout(id.Token); err != nil {
		t.Errorf("second logout: %v", err)
	}
	if _, err := a.Token(token); !errors.Is(err, ErrDenied) {
		t.Errorf("after logout: %v", err)
	}
	token, _, _ = a.Login("192.0.2.1", "bob", "correct horse")
	err := a.db.Update(func(tx *store.Tx) error {
		rec, err := store.Tokens.Get(tx, tokenHash(token))
		if err != nil {
			return err
		}
		rec.Expires = time.Now().Add(-time.Second)
		return store.Tokens.Put(tx, rec)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Token(token); !errors.Is(err, ErrDenied) {
		t.Errorf("after its time: %v", err)
	}
}

func TestTokensDoNotFillTheStore(t *testing.T) {
	a := open(t)
	add(t, a, "bob", "correct horse", Admin)
	var last string
	for range maxTokens + 10 {
		last, _, _ = a.Login("192.0.2.1", "bob", "correct horse")
	}
	n := 0
	_ = a.db.View(func(tx *store.Tx) error {
		for range store.Tokens.All(tx) {
			n++
		}
		return nil
	})
	if n > maxTokens {
		t.Errorf("%d tokens kept, want at most %d", n, maxTokens)
	}
	if _, err := a.Token(last); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

func TestGuessingIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l limiter
		for i := range burst {
			if !l.allow("192.0.2.1") {
				t.Fatalf("refused after %d failures", i)
			}
			l.failed("192.0.2.1")
		}
		if l.allow("192.0.2.1") || l.allow("::ffff:192.0.2.1") {
			t.Error("allowed after the burst")
		}
		if !l.allow("192.0.2.2") {
			t.Error("another source suffers")
		}
		time.Sleep(refill)
		if !l.allow("192.0.2.1") {
			t.Error("refused after a refill")
		}
		for i := range 3 * maxSources {
			l.failed(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		}
		if len(l.sources) > maxSources {
			t.Errorf("%d sources remembered", len(l.sources))
		}
	})
}

func TestLimitGroupsIPv6ByNetwork(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2001:db8::1", "2001:db8::/64"},
		{"2001:db8::ffff", "2001:db8::/64"},
		{"fe80::1%eth0", "fe80::/64"},
		{"192.0.2.1", "192.0.2.1"},
		{"@", "@"},
	} {
		if got := group(tt.in); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestUsersAreChecked(t *testing.T) {
	a := open(t)
	add(t, a, "root", "password of root", Admin)
	for _, tt := range []struct {
		name             string
		user, pass, role string
		want             error
	}{
		{"taken", "root", "password of root", Admin, store.ErrConflict},
		{"empty name", "", "password", Admin, ErrInvalid},
		{"name with a colon, that Basic cannot carry", "a:b", "password", Admin, ErrInvalid},
		{"control characters", "a\nb", "password", Admin, ErrInvalid},
		{"short password", "bob", "1234567", Admin, ErrInvalid},
		{"long password", "bob", strings.Repeat("x", 73), Admin, ErrInvalid},
		{"unknown role", "bob", "password", "root", ErrInvalid},
	} {
		if err := a.AddUser(tt.user, tt.pass, tt.role); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := a.RemoveUser("root"); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("remove the last admin: %v", err)
	}
	if err := a.ChangeUser("root", "", Reader); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("demote the last admin: %v", err)
	}
	if err := a.RemoveUser("nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("remove nobody: %v", err)
	}
	us, err := a.Users()
	if err != nil || len(us) != 1 || us[0].Name != "root" {
		t.Errorf("got %v, %v", us, err)
	}
}

func TestBootstrap(t *testing.T) {
	dir := t.TempDir()
	db := storetest.Open(t)
	path, err := Bootstrap(db, dir)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", path, fi.Mode(), err)
	}
	raw, _ := os.ReadFile(filepath.Join(dir, SecretFile))
	a, err := New(Config{DB: db, Cost: bcrypt.MinCost})
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Verify("127.0.0.1", "admin", strings.TrimSpace(string(raw)))
	if err != nil || !id.Admin() {
		t.Errorf("log in with the file's password: %+v, %v", id, err)
	}
	again, err := Bootstrap(db, dir)
	if err != nil || again != "" {
		t.Errorf("second start: %q, %v", again, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConcurrentUseKeepsIdentitiesApart(t *testing.T) {
	a := open(t)
	for i := range 4 {
		add(t, a, fmt.Sprintf("user%d", i), fmt.Sprintf("password%d", i), Admin)
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			u := fmt.Sprintf("user%d", i%4)
			for range 20 {
				id, err := a.Verify("192.0.2.1", u, fmt.Sprintf("password%d", i%4))
				if err != nil || id.User != u {
					t.Errorf("asked as %s, got %+v, %v", u, id, err)
				}
			}
		})
	}
	wg.Wait()
}

// Whoever restores a backup on another machine can log in there.
func TestBootstrapAfterARestore(t *testing.T) {
	from := t.TempDir()
	db := storetest.OpenDir(t, from)
	if _, err := Bootstrap(db, from); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(filepath.Join(from, SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := db.BackupWithKey(&backup); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string][]byte{"no secret": nil, "another's secret": []byte("x\n"), "its own secret": secret} {
		dir := t.TempDir()
		if err := store.Restore(dir, bytes.NewReader(backup.Bytes()), store.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		if there != nil {
			if err := os.WriteFile(filepath.Join(dir, SecretFile), there, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		db := storetest.OpenDir(t, dir)
		if _, err := Bootstrap(db, dir); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(filepath.Join(dir, SecretFile))
		if err != nil {
			t.Fatal(err)
		}
		if kept := bytes.Equal(now, secret); kept != bytes.Equal(there, secret) {
			t.Errorf("%s: kept it: %v", name, kept)
		}
		a, err := New(Config{DB: db, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Verify("192.0.2.1", "admin", strings.TrimSpace(string(now))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
