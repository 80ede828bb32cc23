package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// A driveFile is a file of a config drive.
type driveFile struct {
	path string // "openstack/latest/meta_data.json"
	data []byte
}

// Bounds of what is read from a file system that a tenant made.
const (
	maxDriveFiles = 4096
	maxDriveDepth = 16
)

const isoBlock = 2048

var errISO = errors.New("damaged ISO 9660 file system")

// isoReader collects the files of an ISO 9660 file system (ECMA-119) in memory.
type isoReader struct {
	image  []byte
	joliet bool // the names are in UTF-16
	rock   bool // Rock Ridge's names were seen
	files  []driveFile
	seen   int // directory entries
	total  int // bytes of files
}

// readISO returns the files of a file system. Their names are Rock Ridge's,
// else Joliet's, else the plain ones in lower case, as with Linux.
func readISO(image []byte) ([]driveFile, error) {
	var root, joliet []byte
	for at := 16 * isoBlock; at+isoBlock <= len(image); at += isoBlock {
		d := image[at : at+isoBlock]
		if string(d[1:6]) != "CD001" || d[0] == 255 {
			break
		}
		switch {
		case d[0] == 1:
			root = d[156:190]
		case d[0] == 2 && isJoliet(d[88:91]):
			joliet = d[156:190]
		}
	}
	if root == nil {
		return nil, fmt.Errorf("%w: it has no volume descriptor", errISO)
	}
	r := &isoReader{image: image}
	err := r.dir(root, "", 0)
	if !r.rock && joliet != nil {
		r = &isoReader{image: image, joliet: true}
		err = r.dir(joliet, "", 0)
	}
	return r.files, err
}

// isJoliet looks for the escape sequence of one of Joliet's three levels.
func isJoliet(escape []byte) bool {
	return bytes.Equal(escape, []byte("%/@")) || bytes.Equal(escape, []byte("%/C")) || bytes.Equal(escape, []byte("%/E"))
}

// extent is the data that a directory record points to.
func (r *isoReader) extent(record []byte) ([]byte, error) {
	le := binary.LittleEndian
	off, n := int64(le.Uint32(record[2:]))*isoBlock, int64(le.Uint32(record[10:]))
	if off+n > int64(len(r.image)) {
		return nil, fmt.Errorf("%w: an extent of %d bytes at %d is behind its end", errISO, n, off)
	}
	return r.image[off : off+n], nil
}

func (r *isoReader) dir(record []byte, path string, depth int) error {
	data, err := r.extent(record)
	if err != nil || depth > maxDriveDepth {
		return errors.Join(err, errIf(depth > maxDriveDepth, "directories are nested more than %d deep", maxDriveDepth))
	}
	for len(data) > 0 {
		n := int(data[0])
		if n == 0 { // records do not cross blocks
			data = data[min(len(data), (len(data)-1)%isoBlock+1):]
			continue
		}
		if n < 34 || n > len(data) || 33+int(data[32]) > n {
			return fmt.Errorf("%w: a directory record is cut short", errISO)
		}
		if err := r.entry(data[:n], path, depth); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func errIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf("%w: %w", errISO, fmt.Errorf(format, args...))
}

func (r *isoReader) entry(record []byte, path string, depth int) error {
	raw := record[33 : 33+int(record[32])]
	if len(raw) == 1 && raw[0] <= 1 { // the directory itself and the one above
		return nil
	}
	if r.seen++; r.seen > maxDriveFiles {
		return errIf(true, "it has more than %d files", maxDriveFiles)
	}
	name := r.name(record, raw)
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return errIf(true, "a file has the name %q", name)
	}
	switch flags := record[25]; {
	case flags&0x80 != 0:
		return errIf(true, "%s has several extents", name)
	case flags&0x02 != 0:
		return r.dir(record, path+name+"/", depth+1)
	}
	data, err := r.extent(record)
	if err != nil {
		return err
	}
	if r.total += len(data); r.total > MaxConfigDrive {
		return errIf(true, "its files are larger than itself")
	}
	r.files = append(r.files, driveFile{path + name, data})
	return nil
}

// name decodes a file's name.
func (r *isoReader) name(record, raw []byte) string {
	if r.joliet {
		u := make([]uint16, len(raw)/2)
		for i := range u {
			u[i] = binary.BigEndian.Uint16(raw[2*i:])
		}
		return withoutVersion(string(utf16.Decode(u)))
	}
	rr := rockRidgeName(record[min(len(record), 33+len(raw)+(len(raw)+1)%2):])
	if r.rock = r.rock || rr != ""; rr != "" {
		return rr
	}
	return strings.ToLower(strings.TrimSuffix(withoutVersion(string(raw)), "."))
}

func withoutVersion(name string) string {
	name, _, _ = strings.Cut(name, ";")
	return name
}

// rockRidgeName joins the NM entries of a record's system use area (IEEE P1282
// 4.1.4).
func rockRidgeName(area []byte) string {
	var name strings.Builder
	for len(area) >= 5 {
		n := int(area[2])
		if n < 5 || n > len(area) {
			break
		}
		if string(area[:2]) == "NM" && area[4]&^1 == 0 {
			name.Write(area[5:n])
		}
		area = area[n:]
	}
	return name.String()
}
