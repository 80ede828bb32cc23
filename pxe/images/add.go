package images

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"bessemer/agent/fetch"
	"bessemer/store"
)

const (
	maxImage = 4 << 40 // bytes; no image file is larger
	reserve  = 64 << 20
	chunk    = 1 << 20
)

// Add copies an image from a local path or an http(s) URL. progress, if not
// nil, is told the bytes done and in total (-1 for unknown) about once a
// megabyte. A name that is taken is store.ErrConflict.
//
// A path is read with this process's rights: never pass one that came over the
// network.
func (s *Store) Add(ctx context.Context, name, source string, progress func(done, total int64)) (*store.Image, error) {
	if err := s.checkName(name); err != nil {
		return nil, fmt.Errorf("add image: %w", err)
	}
	r, size, shown, err := s.openSource(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("add image %q: %w", name, err)
	}
	defer r.Close()
	return s.add(ctx, name, shown, r, size, progress)
}

// AddReader is Add for content that arrives otherwise. size is its length in
// bytes, -1 for unknown; source is only noted.
func (s *Store) AddReader(ctx context.Context, name, source string, r io.Reader, size int64) (*store.Image, error) {
	if err := s.checkName(name); err != nil {
		return nil, fmt.Errorf("add image: %w", err)
	}
	return s.add(ctx, name, source, r, size, nil)
}

// openSource opens a path or URL. shown is how the image names its source.
func (s *Store) openSource(ctx context.Context, source string) (r io.ReadCloser, size int64, shown string, err error) {
	if hasScheme(source) {
		u, err := s.policy.Check(source)
		if err != nil {
			return nil, 0, "", err
		}
		b, err := fetch.Open(ctx, s.client, source, fetch.Limits{MaxSize: maxImage})
		if err != nil {
			return nil, 0, "", err
		}
		u.RawQuery, u.Fragment = "", "" // may sign it
		return b, b.Size(), u.String(), nil
	}
	// Not blocking: a FIFO without a writer would hold us for ever.
	f, err := os.OpenFile(source, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, "", err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w: it is no regular file", source, ErrFormat)
	}
	if err != nil {
		return nil, 0, "", errors.Join(err, f.Close())
	}
	return f, info.Size(), filepath.Base(source), nil
}

// hasScheme reports whether s begins as a URL does (RFC 3986 3.1).
func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || !isLetter(scheme[0]) {
		return false
	}
	return strings.IndexFunc(scheme, func(r rune) bool {
		return r > unicode.MaxASCII || !isLetter(byte(r)) && !strings.ContainsRune("0123456789+-.", r)
	}) < 0
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// checkName refuses names that could not be told from a UUID, URL or path, and
// those that are taken.
func (s *Store) checkName(name string) error {
	switch _, err := uuid.Parse(name); {
	case name == "" || len(name) > 255:
		return fmt.Errorf("name is %w: it must have 1 to 255 bytes", ErrInvalid)
	case err == nil:
		return fmt.Errorf("name %q is %w: it looks like a UUID", name, ErrInvalid)
	case strings.ContainsAny(name, "/\\") || hasScheme(name):
		return fmt.Errorf("name %q is %w: it looks like a path or URL", name, ErrInvalid)
	case strings.ToValidUTF8(name, "") != name || strings.IndexFunc(name, unicode.IsControl) >= 0 || strings.TrimSpace(name) != name:
		return fmt.Errorf("name %q is %w: control characters and blanks at its ends are not allowed", name, ErrInvalid)
	}
	return s.db.View(func(tx *store.Tx) error {
		holder, err := store.Images.By(tx, "name", name)
		if err == nil {
			return &store.KeyError{Table: "images", Index: "name", Key: name, Holder: holder.UUID, Err: store.ErrConflict}
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
}

// add copies r into a file of the store and makes it an image.
func (s *Store) add(ctx context.Context, name, source string, r io.Reader, size int64, progress func(done, total int64)) (*store.Image, error) {
	f, err := os.CreateTemp(s.dir, tempPrefix+"*") // 0600
	if err != nil {
		return nil, fmt.Errorf("add image %q: %w", name, err)
	}
	defer os.Remove(f.Name()) // gone once it is renamed
	defer f.Close()
	c := &copier{ctx: ctx, dir: s.dir, w: f, size: size, progress: progress}
	image, err := c.copy(r)
	if err != nil {
		return nil, fmt.Errorf("add image %q: %w", name, err)
	}
	image.UUID, image.Name, image.Source = uuid.NewString(), name, source
	image.CreatedAt = time.Now().UTC()
	if err := s.keep(f, image); err != nil {
		return nil, fmt.Errorf("add image %q: %w", name, err)
	}
	return image, nil
}

// keep makes the file last, then the record.
func (s *Store) keep(f *os.File, image *store.Image) error {
	if err := f.Sync(); err != nil {
		return err
	}
	path := s.path(image.UUID)
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if err := syncDir(s.dir); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	err := s.db.Update(func(tx *store.Tx) error { return store.Images.Put(tx, image) })
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A copier copies an image into a file and takes its checksums on the way.
type copier struct {
	ctx      context.Context
	dir      string
	w        *os.File
	size     int64 // as announced, -1 for unknown
	done     int64
	progress func(done, total int64)
}

func (c *copier) copy(r io.Reader) (*store.Image, error) {
	if c.size > maxImage {
		return nil, fmt.Errorf("%d bytes are more than any image has: %w", c.size, ErrInvalid)
	}
	if err := c.checkSpace(max(c.size, 0)); err != nil {
		return nil, err
	}
	sums, n, err := sum(c.ctx, io.TeeReader(io.LimitReader(r, maxImage), c))
	switch {
	case err != nil:
		return nil, err
	case c.size >= 0 && n != c.size:
		return nil, fmt.Errorf("its source ended after %d of %d bytes: %w", n, c.size, io.ErrUnexpectedEOF)
	}
	kind, err := inspect(c.w, n)
	if err != nil {
		return nil, err
	}
	return &store.Image{
		Size: n, Format: kind.format, Packed: kind.packed, VirtualSize: kind.virtual,
		SHA256: sums.sha256(), SHA512: sums.sha512(),
	}, nil
}

// Write writes a piece of the image, as long as there is room for more.
func (c *copier) Write(b []byte) (int, error) {
	if c.size >= 0 && c.done+int64(len(b)) > c.size {
		return 0, fmt.Errorf("its source has more than the %d bytes that it announced: %w", c.size, ErrInvalid)
	}
	if c.size < 0 && c.done%(64<<20) < int64(len(b)) {
		if err := c.checkSpace(64 << 20); err != nil {
			return 0, err
		}
	}
	n, err := c.w.Write(b)
	c.done += int64(n)
	if errors.Is(err, unix.ENOSPC) {
		err = fmt.Errorf("%w in %s: %w", ErrNoSpace, c.dir, err)
	}
	if c.progress != nil {
		c.progress(c.done, c.size)
	}
	return n, err
}

// checkSpace makes sure that n more bytes fit and something is left for the
// rest of the appliance.
func (c *copier) checkSpace(n int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(c.dir, &st); err != nil {
		return fmt.Errorf("look for space in %s: %w", c.dir, err)
	}
	if free := int64(st.Bavail)*st.Bsize - reserve; n > free {
		return fmt.Errorf("%w in %s: %d MiB more are needed and %d MiB may be used: delete images, or make room there",
			ErrNoSpace, c.dir, n>>20, max(free, 0)>>20)
	}
	return nil
}

// sums are the checksums of one image.
type sums struct{ h256, h512 hash.Hash }

func (s sums) sha256() string { return fmt.Sprintf("%x", s.h256.Sum(nil)) }
func (s sums) sha512() string { return fmt.Sprintf("%x", s.h512.Sum(nil)) }

// sum reads r to its end, unless ctx ends before.
func sum(ctx context.Context, r io.Reader) (sums, int64, error) {
	s := sums{sha256.New(), sha512.New()}
	both := io.MultiWriter(s.h256, s.h512)
	buf := make([]byte, chunk)
	for n := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return s, n, context.Cause(ctx)
		}
		m, err := io.ReadFull(r, buf)
		_, _ = both.Write(buf[:m])
		n += int64(m)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return s, n, endOf(r, err)
		}
		if err != nil {
			return s, n, err
		}
	}
}

// endOf tells the end of r from a source that broke off and said so with the
// same error: only a source at its end gives EOF when it is asked again.
func endOf(r io.Reader, err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	var b [1]byte
	if n, err := r.Read(b[:]); n != 0 || !errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return nil
}
