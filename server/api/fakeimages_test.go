package api

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"bessemer/pxe/images"
	"bessemer/store"
)

// fakeImages keeps only what it is told of images.
type fakeImages struct{ db *store.DB }

func (f *fakeImages) Add(ctx context.Context, name, source string, progress func(done, total int64)) (*store.Image, error) {
	if source == "http://127.0.0.1/x" {
		return nil, fmt.Errorf("fetch %s: address refused", source)
	}
	return f.keep(name, source, 1)
}

func (f *fakeImages) AddReader(ctx context.Context, name, source string, r io.Reader, size int64) (*store.Image, error) {
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("add image: %w: it is empty", images.ErrFormat)
	}
	return f.keep(name, source, n)
}

func (f *fakeImages) keep(name, source string, size int64) (*store.Image, error) {
	i := &store.Image{UUID: uuid.NewString(), Name: name, Size: size, Format: "raw", Source: source}
	return i, f.db.Update(func(tx *store.Tx) error { return store.Images.Put(tx, i) })
}

func (f *fakeImages) Delete(ident string) error {
	return f.db.Update(func(tx *store.Tx) error { return store.Images.Delete(tx, ident) })
}
