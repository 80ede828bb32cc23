package conductor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"bessemer/pxe"
	"bessemer/store"
)

// Boot implements [pxe.Booter]: what a machine boots now.
func (c *Conductor) Boot(_ context.Context, m pxe.Machine) pxe.Boot {
	n, known := c.index.find(m.MAC)
	if !known {
		c.found.add(m)
		return pxe.Boot{Action: pxe.Retry}
	}
	arch := pxe.NoArch
	if strings.HasPrefix(m.What, "DHCP") { // later requests do not tell
		arch = m.Arch
	}
	c.index.saw(n.uuid, m.What, arch)
	if ofFirmware(m) {
		c.suspect(n.uuid, "its firmware's "+m.What)
	}
	return nextBoot(n)
}

// ofFirmware reports whether a machine's firmware begins to boot: no agent or
// operating system asks for an address in its name.
func ofFirmware(m pxe.Machine) bool {
	return m.What == "DHCP DISCOVER" && (strings.HasPrefix(m.VendorClass, "PXEClient") || strings.HasPrefix(m.VendorClass, "HTTPClient"))
}

// nextBoot decides what a node boots: the ramdisk while a run wants it, else
// its own disk. An ACTIVE node has no run that wants a ramdisk.
func nextBoot(n bootNode) pxe.Boot {
	b := pxe.Boot{Action: pxe.Local, Node: n.uuid, Run: n.run, Trace: n.trace}
	if n.boot != nil {
		b.Action, b.Token = pxe.Ramdisk, n.boot.Token
	}
	return b
}

// File implements [pxe.Booter]: the image and the config drive, for the node
// whose run has the token.
func (c *Conductor) File(_ context.Context, token, name string) (*pxe.File, error) {
	n, ok := c.index.ofToken(token)
	if !ok {
		return nil, pxe.ErrNoFile
	}
	f := &pxe.File{Node: n.uuid, Run: n.run, Trace: n.trace}
	var err error
	switch {
	case name == pxe.FileImage && n.image != "":
		err = c.openImage(f, n.image)
	case name == pxe.FileDrive:
		err = c.openDrive(f, n.uuid)
	default:
		err = pxe.ErrNoFile
	}
	if err != nil {
		return nil, err
	}
	c.index.saw(n.uuid, "download of the "+name, pxe.NoArch)
	return f, nil
}

func (c *Conductor) openImage(f *pxe.File, uuid string) error {
	file, err := c.config.Images.OpenFile(uuid)
	if err != nil {
		return fmt.Errorf("open image %s: %w", uuid, err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open image %s: %w", uuid, err), file.Close())
	}
	f.ReadSeekCloser, f.Size, f.Modified = file, info.Size(), info.ModTime()
	return nil
}

// openDrive serves a config drive as Ironic-Python-Agent wants it: the base64
// of the gzip of the image.
func (c *Conductor) openDrive(f *pxe.File, node string) error {
	d, err := c.configDrive(node)
	if err != nil {
		return err
	}
	if d == nil || len(d.Content) == 0 {
		return pxe.ErrNoFile
	}
	text := []byte(base64.StdEncoding.EncodeToString(d.Content))
	f.ReadSeekCloser, f.Size = inMemory{bytes.NewReader(text)}, int64(len(text))
	// So that a download that a restart of ours breaks off can go on.
	f.ETag = fmt.Sprintf(`"%x"`, sha256.Sum256(text))
	return nil
}

// inMemory is a file of bytes.
type inMemory struct{ io.ReadSeeker }

func (inMemory) Close() error { return nil }

// Scope returns on whose behalf messages of a node are recorded now.
func (c *Conductor) Scope(node string) store.Scope {
	n, ok := c.index.get(node)
	if !ok {
		return store.Scope{}
	}
	return store.Scope{Node: n.uuid, Run: n.run, Trace: n.trace, Step: n.step}
}

// recallSightings takes from the newest messages of a run's node what was last
// heard of it before the restart. It mostly lies near, and there may be many
// runs to go on with.
func (c *Conductor) recallSightings(r *store.Run) {
	for _, n := range []int{16, 200} {
		ms, err := c.db.LastNodeMessages(r.Node, n)
		if err != nil {
			c.log.Error().Err(err).Uint64("run", r.ID).Msg("read messages of a run")
			return
		}
		for _, m := range slices.Backward(ms) {
			if m.Run == r.ID && m.From == store.NodeP {
				c.index.recall(r.Node, m.Label, earlier(m.Time, c.born)) // the time of day may have been set back
				return
			}
		}
		if len(ms) < n {
			return
		}
	}
}
