package image

import (
	"context"
	"fmt"
	"io"
)

// store keeps a qcow2 file, or the means to read it again, between fetching and
// looking into it.
type store interface {
	io.Writer // takes the file, in order
	io.ReaderAt
	// clear removes what was kept on the disk.
	clear() error
}

// store chooses where a file is kept: in memory if it is small; else on the
// target disk behind the image's end, where it is zeroed afterwards; else
// nowhere, and it is read a second time in pieces that must hash to what the
// first reading saw.
func (w *writing) store(ctx context.Context, un *unpacked, h qcowHeader) (store, error) {
	start := (h.size + pieceSize - 1) / pieceSize * pieceSize
	room := max(0, w.dst.Size()-start)
	if un.packing == Plain {
		size := w.file.Size()
		if ra := w.file.Ranges(ctx); ra != nil && size > w.o.Memory && size > room {
			return newTwice(ra, size), nil
		}
		if size > w.o.Memory && size > room {
			return nil, noRoom(room, w.o.Memory)
		}
	}
	return &spool{canvas: w.canvas, memory: w.o.Memory, start: start, room: room}, nil
}

func noRoom(room, memory int64) error {
	return fmt.Errorf("keep the qcow2 file until its checksum is known: it is larger than the %s of the disk behind the image and the %s of memory, "+
		"and cannot be read twice; serve it unpacked from a server with ranges and ETags, or use a raw image, packed with zstd: %w",
		human(room), human(memory), ErrTooSmall)
}

// spool keeps a file in memory and, when that is used up, on the disk.
type spool struct {
	canvas      *canvas
	memory      int64 // bytes of memory
	start, room int64 // the place on the disk

	pieces [][]byte // each pieceSize but the last; nil once on the disk
	onDisk bool
	size   int64
}

// Write implements io.Writer; all writes but the last are pieceSize long.
func (s *spool) Write(p []byte) (int, error) {
	if !s.onDisk && s.size+int64(len(p)) > s.memory {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	s.size += int64(len(p))
	if !s.onDisk {
		s.pieces = append(s.pieces, append([]byte(nil), p...))
		return len(p), nil
	}
	return len(p), s.put(p, s.size-int64(len(p)))
}

// spill moves what is in memory to the disk.
func (s *spool) spill() error {
	if err := s.canvas.begin(); err != nil {
		return err
	}
	for i, p := range s.pieces {
		if err := s.put(p, int64(i)*pieceSize); err != nil {
			return err
		}
	}
	s.onDisk, s.pieces = true, nil
	return nil
}

func (s *spool) put(p []byte, off int64) error {
	if off+int64(len(p)) > s.room {
		return noRoom(s.room, s.memory)
	}
	if _, err := s.canvas.disk.WriteAt(p, s.start+off); err != nil {
		return fmt.Errorf("keep the image file on the disk: %w", err)
	}
	return nil
}

// ReadAt implements io.ReaderAt.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= s.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), s.size-off)]
	if s.onDisk {
		if _, err := s.canvas.disk.ReadAt(want, s.start+off); err != nil {
			return 0, err
		}
	} else {
		for n := 0; n < len(want); {
			at := off + int64(n)
			n += copy(want[n:], s.pieces[at/pieceSize][at%pieceSize:])
		}
	}
	if len(want) < len(p) {
		return len(want), io.EOF
	}
	return len(want), nil
}

func (s *spool) clear() error {
	if !s.onDisk {
		return nil
	}
	if err := s.canvas.disk.Zero(s.start, s.size); err != nil {
		return fmt.Errorf("remove the image file from the disk: %w", err)
	}
	return nil
}
