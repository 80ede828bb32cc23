package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// This file reads a bbolt file by ordinary reads, without bbolt and without
// mapping it, and checks everything in it: both meta pages, each page's
// header, element table and key order, that every page is used exactly once
// or free, and the checksum of every value. After that bbolt can be let near
// it. The layout is that of bbolt's internal/common: a page begins with id (8
// bytes), flags (2), count (2), overflow (4).

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	pageHeader  = 16
	elemSize    = 16 // of branch and leaf elements alike
	bucketSize  = 16 // root page, sequence

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10

	maxProblems = 100 // of one file; there is no use in more
	noPage      = ^uint64(0)
)

var native = binary.NativeEndian // bbolt writes as the machine does

// A boltMeta is what a meta page says.
type boltMeta struct {
	pageSize       int64
	root, freelist uint64
	pages          uint64 // high-water mark: pages from this one on do not exist
	txid           uint64
}

// parseMeta reads the meta in header page id.
func parseMeta(page []byte, id uint64) (boltMeta, error) {
	b := page[pageHeader:]
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	switch {
	case native.Uint32(b) != boltMagic:
		return boltMeta{}, errors.New("it does not begin as a store does")
	case native.Uint64(page) != id || native.Uint16(page[8:]) != metaPage:
		return boltMeta{}, errors.New("it says that it is another page")
	case native.Uint32(b[4:]) != boltVersion:
		return boltMeta{}, errors.New("it has another file version")
	case native.Uint64(b[56:]) != sum.Sum64():
		return boltMeta{}, errors.New("its checksum is wrong")
	}
	m := boltMeta{
		pageSize: int64(native.Uint32(b[8:])),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		pages:    native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}
	if m.pageSize < 512 || m.pageSize > 1<<20 || m.pageSize&(m.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("it names a page size of %d bytes", m.pageSize)
	}
	return m, nil
}

// readMetas reads both meta pages. A page that is not there or damaged has a
// nil meta and a reason.
func readMetas(r io.ReaderAt) (metas [2]*boltMeta, reasons [2]error) {
	size := int64(os.Getpagesize())
	if m, err := readMeta(r, 0, 0); err == nil {
		metas[0], size = &m, m.pageSize
	} else {
		reasons[0] = err
	}
	m, err := readMeta(r, 1, size)
	if err == nil && m.pageSize == size {
		metas[1] = &m
	} else {
		reasons[1] = errors.Join(err, sizesDiffer(m.pageSize, size, err))
	}
	return metas, reasons
}

func sizesDiffer(a, b int64, err error) error {
	if err == nil && a != b {
		return fmt.Errorf("it names a page size of %d bytes, not %d", a, b)
	}
	return nil
}

func readMeta(r io.ReaderAt, id uint64, at int64) (boltMeta, error) {
	page := make([]byte, pageHeader+64)
	if _, err := r.ReadAt(page, at); err != nil {
		return boltMeta{}, fmt.Errorf("it cannot be read: %w", err)
	}
	return parseMeta(page, id)
}

// verifyFile checks the store file at path, which nobody has open.
func verifyFile(ctx context.Context, path string) ([]Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("verify store: %w", err)
	}
	metas, reasons := readMetas(f)
	var problems []Problem
	for i, err := range reasons {
		if err != nil {
			problems = append(problems, Problem{What: fmt.Sprintf("header page %d: %v", i, err)})
		}
	}
	m := newest(metas)
	if m == nil || len(problems) > 0 {
		return problems, nil
	}
	return verifyPages(ctx, f, info.Size(), *m)
}

// verifySalvaged is verifyFile for a file of whose header pages one may be
// damaged.
func verifySalvaged(ctx context.Context, path string) ([]Problem, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("verify store: %w", err)
	}
	metas, _ := readMetas(f)
	if m := newest(metas); m != nil {
		return verifyPages(ctx, f, info.Size(), *m)
	}
	return []Problem{{What: "no header page is whole"}}, nil
}

// verifySnapshot checks the state that transaction txid left, in a file that
// others go on writing to. The caller holds a read transaction on it.
func verifySnapshot(ctx context.Context, f *os.File, txid uint64, size int64) ([]Problem, error) {
	metas, _ := readMetas(f)
	for _, m := range metas {
		if m != nil && m.txid == txid {
			return verifyPages(ctx, f, size, *m)
		}
	}
	// Two commits since the caller began have written over its meta page;
	// the newest state is as good.
	if m := newest(metas); m != nil && m.txid > txid {
		return nil, errMoved
	}
	return []Problem{{What: "no header page is whole"}}, nil
}

var errMoved = errors.New("store is written to too fast to be verified")

func newest(metas [2]*boltMeta) *boltMeta {
	if metas[0] == nil || (metas[1] != nil && metas[1].txid > metas[0].txid) {
		return metas[1]
	}
	return metas[0]
}
