package tinyos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// configLabel is by what cloud-init finds a config drive, in either case.
const configLabel = "config-2"

// configure finds the config drive on the disks and reads it as cloud-init
// does. Of two, a system may take the wrong one (K-25).
func configure(tables []*table, s *System) error {
	var on []*table
	var found []partition
	var where []string
	for _, t := range tables {
		for _, p := range t.parts {
			if strings.EqualFold(t.label(p), configLabel) {
				on, found = append(on, t), append(found, p)
				where = append(where, t.named(fmt.Errorf("partition %d", p.number)).Error())
			}
		}
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return on[0].readDrive(found[0], s)
	}
	return fmt.Errorf("there are %d: %s", len(found), strings.Join(where, " and "))
}

// label is the label of the file system on a partition, "" for others than
// ISO 9660 and FAT.
func (t *table) label(p partition) string {
	if t.isISO(p) {
		b, err := t.read(p.start+16*2048+40, 32)
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(b), " \x00")
	}
	f, err := openFAT(t.section(p))
	if err != nil {
		return ""
	}
	return f.label
}

func (t *table) isISO(p partition) bool {
	if p.length < 17*2048 {
		return false
	}
	b, err := t.read(p.start+16*2048+1, 5)
	return err == nil && string(b) == "CD001"
}

// readDrive reads the files of a config drive.
func (t *table) readDrive(p partition, s *System) error {
	read, kind, err := t.mount(p)
	if err != nil {
		return fmt.Errorf("partition %d: %w", p.number, err)
	}
	s.Config = fmt.Sprintf("partition %d, %s", p.number, kind)
	text, err := read("openstack/latest/meta_data.json")
	if err != nil {
		return fmt.Errorf("partition %d: %w", p.number, err)
	}
	var meta struct {
		UUID     string            `json:"uuid"`
		Hostname string            `json:"hostname"`
		Name     string            `json:"name"`
		Keys     map[string]string `json:"public_keys"`
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return fmt.Errorf("partition %d: meta_data.json: %w", p.number, err)
	}
	if meta.UUID == "" {
		return fmt.Errorf("partition %d: meta_data.json has no uuid", p.number)
	}
	if s.Hostname = meta.Hostname; s.Hostname == "" {
		s.Hostname = meta.Name
	}
	s.InstanceUUID = meta.UUID
	for _, name := range slices.Sorted(maps.Keys(meta.Keys)) {
		s.SSHKeys = append(s.SSHKeys, meta.Keys[name])
	}
	if s.UserData, err = optional(read("openstack/latest/user_data")); err != nil {
		return fmt.Errorf("partition %d: %w", p.number, err)
	}
	if s.NetworkData, err = optional(read("openstack/latest/network_data.json")); err != nil {
		return fmt.Errorf("partition %d: %w", p.number, err)
	}
	if s.NetworkData != nil && !json.Valid(s.NetworkData) {
		return fmt.Errorf("partition %d: network_data.json is not JSON", p.number)
	}
	return nil
}

// errAbsent is wrapped for a file that a FAT file system does not have.
var errAbsent = errors.New("is not there")

// optional takes a file that need not be there.
func optional(b []byte, err error) ([]byte, error) {
	if err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errAbsent)) {
		return nil, nil
	}
	return b, err
}

// mount opens the file system on a partition, if Linux could: its blocks must
// not be smaller than the disk's (K-02).
func (t *table) mount(p partition) (read func(string) ([]byte, error), kind string, err error) {
	if !t.isISO(p) {
		f, err := openFAT(t.section(p))
		if err == nil && f.sector < t.sector {
			err = fmt.Errorf("FAT with sectors of %d bytes cannot be mounted from a disk with sectors of %d", f.sector, t.sector)
		}
		if err != nil {
			return nil, "", err
		}
		return f.read, "vfat", nil
	}
	if t.sector > 2048 {
		return nil, "", fmt.Errorf("ISO 9660 cannot be mounted from a disk with sectors of %d bytes", t.sector)
	}
	iso, err := openISO(t.section(p))
	if err != nil {
		return nil, "", err
	}
	return iso.ReadFile, "iso9660", nil
}

// openISO reads the file system's directory. A panic of the library is an error
// of the file system.
func openISO(s *io.SectionReader) (iso *iso9660.FileSystem, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged ISO 9660 file system: %v", r)
		}
	}()
	return iso9660.Read(readOnly{s}, s.Size(), 0, 2048)
}

// readOnly is a part of a disk as the library wants it.
type readOnly struct{ *io.SectionReader }

var _ backend.Storage = readOnly{}

// Stat implements fs.File; nobody needs it.
func (readOnly) Stat() (fs.FileInfo, error) { return nil, errors.ErrUnsupported }

// Close implements io.Closer.
func (readOnly) Close() error { return nil }

// Sys implements backend.Storage.
func (readOnly) Sys() (*os.File, error) { return nil, backend.ErrNotSuitable }

// Writable implements backend.Storage.
func (readOnly) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }

// Path implements backend.Storage.
func (readOnly) Path() string { return "" }
