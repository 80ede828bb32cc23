package store

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A backup is a line that says what it is, a line of JSON (backupHeader), the
// store's file, and the SHA-256 of all that.
const backupMagic = "bessemer backup 1\n"

const maxBackupHeader = 4096

// A backupHeader describes a backup.
type backupHeader struct {
	Schema  int       `json:"schema"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`          // of the store's file that follows, bytes
	Key     string    `json:"key,omitempty"` // the secret key in hex, if the backup holds it
}

// Backup writes a consistent copy of the store to w while it is in use. The
// records in it stay sealed and the secret key is not in it: keep a copy of
// the data directory's secret.key elsewhere. A slow w does not hold up the
// store.
func (db *DB) Backup(w io.Writer) error {
	schema, err := db.schema()
	if err != nil {
		return err
	}
	return db.writeBackup(w, backupHeader{Schema: schema})
}

// BackupWithKey is Backup with the secret key in it: enough to restore on
// another machine, and for whoever gets hold of it to read everything.
func (db *DB) BackupWithKey(w io.Writer) error {
	schema, err := db.schema()
	if err != nil {
		return err
	}
	key, err := loadKey(db.dir())
	if err != nil {
		return err
	}
	return db.writeBackup(w, backupHeader{Schema: schema, Key: hex.EncodeToString(key)})
}

// schema returns the number of the store's schema.
func (db *DB) schema() (n int, err error) {
	err = db.space.View(func(tx spaceTx) error {
		n, err = readSchema(tx)
		return err
	})
	return n, err
}

func (db *DB) dir() string { return filepath.Dir(db.lock.Name()) }

// writeBackup copies the store to a file first, since a transaction that
// stays open as long as a slow reader likes would make the store grow.
func (db *DB) writeBackup(w io.Writer, h backupHeader) error {
	if err := db.flushOpen(); err != nil {
		return err
	}
	f, err := os.CreateTemp(db.dir(), "backup-*.tmp")
	if err != nil {
		return fmt.Errorf("back up store: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("back up store: %w", err)
	}
	if h.Size, err = db.space.Snapshot(f); err != nil {
		return fmt.Errorf("back up store: %w", err)
	}
	h.Created = time.Now().UTC()
	if err := sendBackup(w, h, io.NewSectionReader(f, 0, h.Size)); err != nil {
		return fmt.Errorf("back up store: %w", err)
	}
	return nil
}

// flushOpen is Flush; before the store is open for good there is nothing to
// flush.
func (db *DB) flushOpen() error {
	if _, seq := db.snapshot(); seq == 0 {
		return nil
	}
	return db.Flush()
}

func sendBackup(w io.Writer, h backupHeader, content io.Reader) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	sum := sha256.New()
	both := io.MultiWriter(w, sum)
	if _, err := fmt.Fprintf(both, "%s%s\n", backupMagic, line); err != nil {
		return err
	}
	if _, err := io.Copy(both, content); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// A backupReader reads a backup and adds up its checksum.
type backupReader struct {
	backupHeader
	r   *bufio.Reader
	sum hash.Hash
}

// openBackup reads the header of a backup.
func openBackup(r io.Reader) (*backupReader, error) {
	b := &backupReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(b.r, magic); err != nil || string(magic) != backupMagic {
		return nil, fmt.Errorf("read backup: %w: it does not begin as a backup of this version does", ErrCorrupt)
	}
	line, err := readLine(b.r, maxBackupHeader)
	if err != nil {
		return nil, fmt.Errorf("read backup: %w: its header: %w", ErrCorrupt, err)
	}
	if err := json.Unmarshal(line, &b.backupHeader); err != nil || b.Size <= 0 {
		return nil, fmt.Errorf("read backup: %w: its header makes no sense", ErrCorrupt)
	}
	_, _ = b.sum.Write(magic)
	_, _ = b.sum.Write(line)
	return b, nil
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for len(line) < limit {
		c, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if line = append(line, c); c == '\n' {
			return line, nil
		}
	}
	return nil, fmt.Errorf("longer than %d bytes", limit)
}

// copyTo copies the store's file to w and verifies the checksum of all.
func (b *backupReader) copyTo(w io.Writer) error {
	switch _, err := io.CopyN(io.MultiWriter(w, b.sum), b.r, b.Size); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("read backup: %w: it ends before its %d bytes", ErrCorrupt, b.Size)
	case err != nil:
		return fmt.Errorf("copy backup: %w", err)
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(b.r, want); err != nil {
		return fmt.Errorf("read backup: %w: its checksum is missing", ErrCorrupt)
	}
	if string(want) != string(b.sum.Sum(nil)) {
		return fmt.Errorf("read backup: %w: its checksum is wrong", ErrCorrupt)
	}
	return nil
}
