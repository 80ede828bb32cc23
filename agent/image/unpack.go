package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// A Packing is how an image file is compressed as a whole.
type Packing string

// Packings that are unpacked on the way.
const (
	Plain Packing = ""
	Gzip  Packing = "gz"
	Zstd  Packing = "zst"
	Xz    Packing = "xz"
)

// Limits of memory that a packed file may ask for: what zstd --ultra -22 and
// xz -9 make.
const (
	maxZstdWindow = 128 << 20
	maxXzDict     = 64 << 20
)

// unpacked is the image inside a file, with its first bytes looked at.
type unpacked struct {
	io.Reader // the whole image, head included
	packing   Packing
	head      []byte // at most headSize
	size      int64  // of the image when the packing tells, else -1
	close     func()
}

// Close ends the unpacking.
func (u *unpacked) Close() {
	if u.close != nil {
		u.close()
	}
}

// unpack finds out by content how a file is packed and unpacks it.
func unpack(r io.Reader) (*unpacked, error) {
	head, err := peek(r)
	if err != nil {
		return nil, err
	}
	u := &unpacked{size: -1}
	whole := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case has(head, 0, "\x1f\x8b\x08"):
		u.packing = Gzip
		u.Reader, err = gzip.NewReader(whole)
	case has(head, 0, "\x28\xb5\x2f\xfd"):
		u.packing, u.size = Zstd, zstdSize(head)
		var d *zstd.Decoder
		if d, err = zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow)); err == nil {
			u.Reader, u.close = d, d.Close
		}
	case has(head, 0, "\xfd7zXZ\x00"):
		u.packing = Xz
		u.Reader, err = xz.NewReader(whole, maxXzDict)
	default:
		u.Reader, u.head = whole, head
		return u, nil
	}
	if err != nil {
		return nil, unpackError(u.packing, err)
	}
	u.Reader = &named{u.packing, u.Reader}
	if u.head, err = peek(u.Reader); err != nil {
		u.Close()
		return nil, err
	}
	u.Reader = io.MultiReader(bytes.NewReader(u.head), u.Reader)
	return u, nil
}

// peek reads the first bytes, fewer if there are no more.
func peek(r io.Reader) ([]byte, error) {
	b := make([]byte, headSize)
	n, err := readFull(r, b)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// zstdSize is the unpacked size that the first frame tells. A file may hold
// more frames, so it is a lower bound.
func zstdSize(head []byte) int64 {
	var h zstd.Header
	if h.Decode(head) != nil || !h.HasFCS || h.FrameContentSize > 1<<62 {
		return -1
	}
	return int64(h.FrameContentSize)
}

// named says in errors what was being unpacked.
type named struct {
	packing Packing
	r       io.Reader
}

// Read implements io.Reader.
func (n *named) Read(p []byte) (int, error) {
	m, err := n.r.Read(p)
	if err != nil && err != io.EOF {
		err = unpackError(n.packing, err)
	}
	return m, err
}

func unpackError(p Packing, err error) error {
	hint := "the file is damaged or cut short"
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		hint = fmt.Sprintf("it asks for more than %d MiB of memory; pack it with zstd -19 or --long=27", maxZstdWindow>>20)
	case errors.Is(err, xz.ErrMemlimit):
		hint = fmt.Sprintf("it asks for more than %d MiB of memory; pack it with xz -9 or less", maxXzDict>>20)
	}
	return fmt.Errorf("unpack .%s: %w; %s", p, err, hint)
}
