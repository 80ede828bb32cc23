package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// refit returns a config drive that Linux can mount from a disk with sectors of
// so many bytes, and what was done to it, "" for nothing. A file system with
// smaller blocks than the disk's cannot be mounted (K-02): its files are put
// into a FAT file system with larger ones.
func refit(image []byte, sector int) ([]byte, string, error) {
	block, kind, read := isoBlock, "ISO 9660", readISO
	if !isISO(image) {
		block, kind, read = int(binary.LittleEndian.Uint16(image[11:])), "FAT", readFAT
	}
	if block >= sector {
		return image, "", nil
	}
	files, err := read(image)
	if err == nil {
		image, err = makeFAT12(files, ConfigLabel, sector)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: it is %s with blocks of %d bytes, the disk has sectors of %d, so no Linux could mount it, and it cannot be made anew: %w; give a FAT file system with sectors of %d bytes",
			ErrConfigDrive, kind, block, sector, err, sector)
	}
	return image, fmt.Sprintf("the disk has sectors of %d bytes, from which Linux mounts no %s with blocks of %d: the %d files were put into a FAT file system",
		sector, kind, block, len(files)), nil
}

// readFAT returns the files of a FAT file system.
func readFAT(image []byte) ([]driveFile, error) {
	f, err := parseFAT(image[:512], int64(len(image)))
	if err != nil {
		return nil, err
	}
	f.r = bytes.NewReader(image)
	w := fatWalk{f: f}
	err = w.dir(nil, "", 0)
	return w.files, err
}

type fatWalk struct {
	f     *FAT
	files []driveFile
	seen  int
	total int
}

func (w *fatWalk) dir(e *entry, path string, depth int) error {
	es, err := w.f.list(e)
	if err != nil {
		return err
	}
	if w.seen += len(es); w.seen > maxDriveFiles || depth > maxDriveDepth {
		return fmt.Errorf("it has more than %d files, or directories nested more than %d deep", maxDriveFiles, maxDriveDepth)
	}
	for _, e := range es {
		if e.dir {
			if e.cluster == 0 {
				return fmt.Errorf("%s%s leads back to the root", path, e.name)
			}
			if err := w.dir(&e, path+e.name+"/", depth+1); err != nil {
				return err
			}
			continue
		}
		data, err := w.f.chain(e.cluster, min(int64(e.size), MaxConfigDrive))
		if err != nil {
			return err
		}
		if w.total += len(data); w.total > MaxConfigDrive || len(data) < int(e.size) {
			return fmt.Errorf("%s%s is damaged", path, e.name)
		}
		w.files = append(w.files, driveFile{path + e.name, data})
	}
	return nil
}
