package store_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bessemer/store"
	"bessemer/store/storetest"
)

func TestSecretsAreSealed(t *testing.T) {
	const canary = "canary-7f3a9c51"
	dir := t.TempDir()
	db := storetest.OpenDir(t, dir)
	n := node(1)
	n.DriverInfo["redfish_password"] = canary
	n.Description = canary
	put(t, db, n)
	db.Record(t.Context(), message(canary))
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	var backup bytes.Buffer
	if err := db.Backup(&backup); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(backup.Bytes(), []byte(canary)) {
		t.Error("the secret lies in the backup in clear")
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(canary)) {
			t.Errorf("the secret lies in %s in clear", path)
		}
		info, ierr := d.Info()
		if ierr == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return errors.Join(err, ierr)
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(backup.Bytes(), bytes.TrimSpace(key)) {
		t.Error("the backup holds the key")
	}
}

func TestOpenMakesPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	storetest.OpenDir(t, dir)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode = %v, %v; want 0700", info.Mode(), err)
	}
}

func TestKey(t *testing.T) {
	other := strings.Repeat("ab", 32) + "\n"
	for _, tt := range []struct {
		name   string
		spoil  func(t *testing.T, key string) error
		want   error
		advice string
	}{
		{"missing", func(t *testing.T, key string) error { return os.Remove(key) }, store.ErrKey, "put back"},
		{"of another store", func(t *testing.T, key string) error { return os.WriteFile(key, []byte(other), 0o600) }, store.ErrKey, "does not belong"},
		{"cut off", func(t *testing.T, key string) error { return os.Truncate(key, 10) }, store.ErrKey, "64 hex digits"},
		{"readable by others", func(t *testing.T, key string) error { return os.Chmod(key, 0o644) }, nil, "chmod 600"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := filled(t)
			if err := tt.spoil(t, filepath.Join(dir, "secret.key")); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(filepath.Join(dir, "bessemer.db"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(dir, store.Options{})
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.advice) {
				t.Errorf("Open = %v, want %v with %q", err, tt.want, tt.advice)
			}
			after, err := os.ReadFile(filepath.Join(dir, "bessemer.db"))
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed, %v", err)
			}
		})
	}
}

func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	storetest.OpenDir(t, dir)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_DIR="+dir, "STORE_TEST_OPEN=1")
	out, err := cmd.Output()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || !strings.Contains(string(out), store.ErrLocked.Error()) || !strings.Contains(string(out), "pid") {
		t.Errorf("second process: %v: %s", err, out)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second Open = %v, want ErrLocked", err)
	}
	if _, err := store.CheckFile(t.Context(), dir); !errors.Is(err, store.ErrLocked) {
		t.Errorf("CheckFile = %v, want ErrLocked", err)
	}
	if err := store.Restore(dir, strings.NewReader(""), store.RestoreOptions{Force: true}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Restore = %v, want ErrLocked", err)
	}
}

func TestUnfinishedCreation(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bessemer.db.new"), []byte("begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, storetest.OpenDir(t, dir), node(1))
}

// TestKilledBackupsLeaveNothing behind the next start.
func TestKilledBackupsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"backup-123.tmp", "restore-1.tmp", "before-schema-2.backup.new", ".secret.key.a1b2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	storetest.OpenDir(t, dir)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if n := f.Name(); n != "bessemer.db" && n != "bessemer.lock" && n != "secret.key" {
			t.Errorf("%s is left", n)
		}
	}
}

// TestRestoredStoresAreMarked until somebody clears the mark.
func TestRestoredStoresAreMarked(t *testing.T) {
	db := storetest.Open(t)
	put(t, db, node(1))
	mark := func(db *store.DB, clear bool) (at time.Time, ok bool) {
		t.Helper()
		err := db.Update(func(tx *store.Tx) (err error) {
			if at, ok, err = tx.Restored(); err == nil && clear {
				err = tx.ClearRestored()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return at, ok
	}
	if _, ok := mark(db, false); ok {
		t.Error("a new store is marked")
	}
	var backup bytes.Buffer
	begun := time.Now()
	if err := db.BackupWithKey(&backup); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := store.Restore(to, &backup, store.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	db = storetest.OpenDir(t, to)
	if at, ok := mark(db, true); !ok || at.Before(begun) || at.After(time.Now()) {
		t.Errorf("got %v, %v", at, ok)
	}
	if _, ok := mark(db, false); ok {
		t.Error("the mark stays")
	}
}

func TestBackupAndRestore(t *testing.T) {
	dir, want := filled(t)
	db, err := store.Open(dir, store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var plain, withKey bytes.Buffer
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // others write meanwhile
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = db.Update(func(tx *store.Tx) error { return store.Users.Put(tx, &store.User{Name: "u"}) })
			}
		}
	}()
	err = errors.Join(db.Backup(&plain), db.BackupWithKey(&withKey))
	close(stop)
	<-stopped
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T, dir string) {
		t.Helper()
		got, err := contents(dir)
		if err != nil || len(got) != len(want) {
			t.Errorf("restored %d records, %v; want %d", len(got), err, len(want))
		}
		storetest.OpenDir(t, dir)
	}

	t.Run("with its key, elsewhere", func(t *testing.T) {
		to := filepath.Join(t.TempDir(), "new")
		if err := store.Restore(to, bytes.NewReader(withKey.Bytes()), store.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, to)
	})
	t.Run("without its key", func(t *testing.T) {
		to := t.TempDir()
		err := store.Restore(to, bytes.NewReader(plain.Bytes()), store.RestoreOptions{})
		if !errors.Is(err, store.ErrKey) {
			t.Fatalf("Restore = %v, want ErrKey", err)
		}
		key, err := os.ReadFile(filepath.Join(dir, "secret.key"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, "secret.key"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := store.Restore(to, bytes.NewReader(plain.Bytes()), store.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, to)
	})
	t.Run("over another store", func(t *testing.T) {
		to := t.TempDir()
		other := storetest.OpenDir(t, to)
		put(t, other, node(999))
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		if err := store.Restore(to, bytes.NewReader(withKey.Bytes()), store.RestoreOptions{}); !errors.Is(err, store.ErrExists) {
			t.Fatalf("Restore = %v, want ErrExists", err)
		}
		if err := store.Restore(to, bytes.NewReader(plain.Bytes()), store.RestoreOptions{Force: true}); !errors.Is(err, store.ErrKey) {
			t.Fatalf("Restore without the key = %v, want ErrKey", err)
		}
		if err := store.Restore(to, bytes.NewReader(withKey.Bytes()), store.RestoreOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		same(t, to)
		for _, name := range []string{"bessemer.db.before-restore", "secret.key.before-restore"} {
			if _, err := os.Stat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("damaged", func(t *testing.T) {
		b := withKey.Bytes()
		for at := 0; at < len(b); at += 1 + len(b)/40 {
			bad := bytes.Clone(b)
			bad[at] ^= 0x10
			refuse(t, bad)
			refuse(t, b[:at])
		}
		refuse(t, []byte(strings.Repeat("x", 1<<20)))
	})
}

// refuse holds that a bad backup is refused, and leaves nothing behind.
func refuse(t *testing.T, backup []byte) {
	t.Helper()
	to := t.TempDir()
	err := store.Restore(to, bytes.NewReader(backup), store.RestoreOptions{})
	if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrKey) && !errors.Is(err, store.ErrSchema) {
		t.Errorf("Restore = %v, want it refused", err)
	}
	left, err := filepath.Glob(filepath.Join(to, "*"))
	if err != nil || len(left) > 1 { // the lock
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// stuck takes its time.
type stuck struct{ let chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.let
	return len(p), nil
}

// TestSlowBackup holds that a slow reader of a backup holds nobody up, not
// even when the file must grow.
func TestSlowBackup(t *testing.T) {
	db := storetest.Open(t)
	w := stuck{make(chan struct{})}
	done := make(chan error)
	go func() { done <- db.Backup(w) }()
	for i := range 200 {
		n := node(i)
		n.Extra = map[string]any{"long": strings.Repeat("x", 50_000)}
		put(t, db, n)
	}
	close(w.let)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBackupReportsTheWriter(t *testing.T) {
	db := storetest.Open(t)
	r, w := io.Pipe()
	_ = r.CloseWithError(fs.ErrPermission)
	if err := db.Backup(w); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Backup = %v", err)
	}
}

// TestLockIsGivenUp holds that a waiting process gets the store as soon as the
// first one ends.
func TestLockIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	db := storetest.OpenDir(t, dir)
	time.AfterFunc(20*time.Millisecond, func() { _ = db.Close() })
	storetest.OpenDir(t, dir)
}
