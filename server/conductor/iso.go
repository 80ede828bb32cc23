package conductor

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// driveLabel is the volume label that cloud-init and Ignition look for.
const driveLabel = "config-2"

const isoBlock = 2048

// makeISO returns the gzip of an ISO 9660 image with Rock Ridge and Joliet
// names that holds the files. It works in a directory of its own below dir,
// which only this user may read.
func makeISO(dir string, files map[string][]byte) (packed []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make config drive: %w", err)
	}
	work, err := os.MkdirTemp(dir, "configdrive-")
	if err != nil {
		return nil, fmt.Errorf("make config drive: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	name := filepath.Join(work, "drive.iso")
	if err := writeISO(name, filepath.Join(work, "tree"), files); err != nil {
		return nil, fmt.Errorf("make config drive: %w", err)
	}
	image, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("make config drive: %w", err)
	}
	return pack(image[:min(isoSize(image), int64(len(image)))])
}

func writeISO(name, tree string, files map[string][]byte) error {
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	b, err := file.CreateFromPath(name, isoRoom(files))
	if err != nil {
		return err
	}
	defer b.Close()
	fs, err := iso9660.Create(b, 0, 0, isoBlock, tree)
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if err := addFile(fs, p, files[p]); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return fs.Finalize(iso9660.FinalizeOptions{VolumeIdentifier: driveLabel, RockRidge: true, Joliet: true})
}

func addFile(fs *iso9660.FileSystem, name string, content []byte) error {
	for _, dir := range parents(name) {
		if err := fs.Mkdir(dir); err != nil {
			return err
		}
	}
	f, err := fs.OpenFile(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// parents returns the directories above a path, the topmost first.
func parents(name string) (dirs []string) {
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// isoRoom is a size that surely holds the files and what describes them.
func isoRoom(files map[string][]byte) int64 {
	room := int64(1 << 20)
	for _, content := range files {
		room += int64(len(content)) + 4*isoBlock
	}
	return room
}

// isoSize reads the size of an image from its primary volume descriptor
// (ECMA-119, 8.4.8: volume space size, in blocks).
func isoSize(image []byte) int64 {
	const descriptor = 16 * isoBlock
	if len(image) < descriptor+isoBlock {
		return int64(len(image))
	}
	return int64(binary.LittleEndian.Uint32(image[descriptor+80:])) * isoBlock
}

func pack(image []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.Copy(z, bytes.NewReader(image))
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("pack config drive: %w", err)
	}
	return b.Bytes(), nil
}
