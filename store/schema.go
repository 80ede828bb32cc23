package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A migration brings a store from one schema to the next, in the transaction
// that also notes the new schema.
type migration func(*Tx) error

// migrations are numbered from 1, the step from schema 1 to 2. They are never
// changed once released, only added to.
var migrations []migration

var (
	schemaKey   = []byte("m/schema")
	keyCheckKey = []byte("m/key")
	keyCheck    = []byte("the secret key fits")
)

// A schemaRecord says how the records of a store are laid out. It is not
// sealed, so that it can be read without the key.
type schemaRecord struct {
	Schema int `json:"schema"`
}

// fill puts into a new space what every store has.
func fill(tx spaceTx, seal *sealer) error {
	if err := putSchema(tx, 1); err != nil {
		return err
	}
	return tx.Put(keyCheckKey, seal.seal(keyCheckKey, 1, keyCheck))
}

func putSchema(tx spaceTx, n int) error {
	raw, err := json.Marshal(schemaRecord{n})
	if err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	return tx.Put(schemaKey, withSum(schemaKey, raw))
}

func readSchema(tx spaceTx) (int, error) {
	raw, err := checkSum(schemaKey, tx.Get(schemaKey))
	if err != nil {
		return 0, fmt.Errorf("read schema: %w", err)
	}
	var r schemaRecord
	if err := json.Unmarshal(raw, &r); err != nil || r.Schema < 1 {
		return 0, fmt.Errorf("read schema: %w: %s", ErrCorrupt, raw)
	}
	return r.Schema, nil
}

// checkKey refuses a secret key that the store was not sealed with.
func (db *DB) checkKey(tx spaceTx) error {
	raw := tx.Get(keyCheckKey)
	if _, err := checkSealed(keyCheckKey, raw); err != nil {
		return fmt.Errorf("check secret key: %w", err)
	}
	if _, err := db.seal.open(keyCheckKey, raw); err != nil {
		return fmt.Errorf("%w: %s does not belong to this store: put back the file that does, or restore a backup that holds its key", ErrKey, keyFile)
	}
	return nil
}

// migrate checks the key and brings the store to the newest schema, after
// backing it up beside itself.
func (db *DB) migrate(dir string, migrations []migration) error {
	have, want := 0, 1+len(migrations)
	err := db.space.View(func(tx spaceTx) (err error) {
		if have, err = readSchema(tx); err != nil {
			return err
		}
		if have > want {
			return fmt.Errorf("store has schema %d, this version knows up to %d: %w: use that version, or restore a backup from before it", have, want, ErrSchema)
		}
		return db.checkKey(tx)
	})
	if err != nil || have == want {
		return err
	}
	if err := db.backupFile(filepath.Join(dir, fmt.Sprintf("before-schema-%d.backup", want)), have); err != nil {
		return fmt.Errorf("back up before migration: %w", err)
	}
	return db.commit(func(tx *Tx) error {
		for i := have; i < want; i++ {
			if err := migrations[i-1](tx); err != nil {
				return fmt.Errorf("migrate store from schema %d to %d: %w", i, i+1, err)
			}
		}
		return putSchema(tx.tx, want)
	})
}

// backupFile writes a backup to path, which appears whole or not at all.
func (db *DB) backupFile(path string, schema int) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	err = db.writeBackup(f, backupHeader{Schema: schema})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
