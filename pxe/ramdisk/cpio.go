package ramdisk

import (
	"fmt"
	"io"
	"path"
)

// File types of an initramfs entry (the S_IFMT bits of stat(2)).
const (
	typeMask = 0o170000
	typeDir  = 0o040000
	typeChar = 0o020000
	typeFile = 0o100000
	typeLink = 0o120000
)

// An entry is one file of the initramfs. Owner is root and the time is zero,
// so that the same files make the same bytes.
type entry struct {
	name         string // without a leading slash
	mode         uint32 // type and permissions
	data         []byte // content, or a link's target
	major, minor uint32 // of a character device
}

// A cpioWriter writes the "newc" format that the kernel unpacks (its
// Documentation/driver-api/early-userspace/buffer-format.rst): a header of 110
// characters, the name, the data, each padded to four bytes.
type cpioWriter struct {
	w    io.Writer
	ino  uint32
	dirs map[string]bool
}

func newCPIO(w io.Writer) *cpioWriter {
	return &cpioWriter{w: w, dirs: map[string]bool{".": true, "/": true}}
}

// add writes e, and before it the directories above it that were not yet
// written: the kernel creates none by itself.
func (c *cpioWriter) add(e entry) error {
	if e.mode&typeMask == typeDir {
		if c.dirs[e.name] {
			return nil
		}
		c.dirs[e.name] = true
	}
	if parent := path.Dir(e.name); !c.dirs[parent] {
		if err := c.add(entry{name: parent, mode: typeDir | 0o755}); err != nil {
			return err
		}
	}
	c.ino++
	return c.record(c.ino, e)
}

func (c *cpioWriter) record(ino uint32, e entry) error {
	links := 1
	if e.mode&typeMask == typeDir {
		links = 2
	}
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		ino, e.mode, 0, 0, links, 0, len(e.data), 0, 0, e.major, e.minor, len(e.name)+1, 0)
	if err := c.padded([]byte(head + e.name + "\x00")); err != nil {
		return fmt.Errorf("write header of %s: %w", e.name, err)
	}
	if err := c.padded(e.data); err != nil {
		return fmt.Errorf("write %s: %w", e.name, err)
	}
	return nil
}

func (c *cpioWriter) padded(b []byte) error {
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	_, err := c.w.Write(make([]byte, -len(b)&3))
	return err
}

// close writes the trailer.
func (c *cpioWriter) close() error {
	return c.record(0, entry{name: "TRAILER!!!"})
}
