package store

import (
	"bytes"
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

// A pageReader walks the pages of one state of a file.
type pageReader struct {
	ctx      context.Context
	r        io.ReaderAt
	meta     boltMeta
	used     []byte // for each page: how often it is used or free, and no more than 2
	keys     int    // seen in our bucket
	problems []Problem
}

func verifyPages(ctx context.Context, r io.ReaderAt, size int64, m boltMeta) ([]Problem, error) {
	if m.pages < 4 || m.pages > uint64(size/m.pageSize) {
		return []Problem{{What: fmt.Sprintf("the file has %d bytes but its header speaks of %d pages of %d: it was cut short",
			size, m.pages, m.pageSize)}}, nil
	}
	p := &pageReader{ctx: ctx, r: r, meta: m, used: make([]byte, m.pages)}
	p.used[0], p.used[1] = 1, 1
	p.freelist()
	p.rootBucket()
	for id, n := range p.used {
		if n != 1 {
			p.reportf(uint64(id), "is %s", [...]string{"neither used nor free", "", "used twice, or both used and free"}[n])
		}
	}
	return p.problems, ctx.Err()
}

func (p *pageReader) reportf(page uint64, format string, args ...any) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, Problem{What: fmt.Sprintf("page %d ", page) + fmt.Sprintf(format, args...)})
	}
}

// page reads page id with its overflow pages and marks them as used. It
// returns nil when there is something wrong with it.
func (p *pageReader) page(id uint64, flags ...uint16) []byte {
	if id < 2 || id >= p.meta.pages {
		p.reportf(id, "is pointed to but lies outside the file")
		return nil
	}
	if p.used[id] != 0 {
		p.used[id] = 2
		return nil
	}
	head := make([]byte, p.meta.pageSize)
	if _, err := p.r.ReadAt(head, int64(id)*p.meta.pageSize); err != nil {
		p.reportf(id, "cannot be read: %v", err)
		return nil
	}
	over := uint64(native.Uint32(head[12:]))
	switch kind := native.Uint16(head[8:]); {
	case native.Uint64(head) != id:
		p.reportf(id, "says that it is page %d", native.Uint64(head))
		return nil
	case !oneOf(kind, flags):
		p.reportf(id, "has kind %#x, which does not belong here", kind)
		return nil
	case over >= p.meta.pages-id:
		p.reportf(id, "says that it goes on over %d pages, which do not exist", over)
		return nil
	}
	for i := id; i <= id+over; i++ {
		p.used[i] = min(p.used[i]+1, 2)
	}
	if over == 0 {
		return head
	}
	whole := make([]byte, int64(over+1)*p.meta.pageSize)
	if _, err := p.r.ReadAt(whole, int64(id)*p.meta.pageSize); err != nil {
		p.reportf(id, "cannot be read: %v", err)
		return nil
	}
	return whole
}

func oneOf(kind uint16, flags []uint16) bool {
	for _, f := range flags {
		if kind == f {
			return true
		}
	}
	return false
}

// freelist counts the free pages.
func (p *pageReader) freelist() {
	id := p.meta.freelist
	if id == noPage {
		p.reportf(1, "names no list of free pages")
		return
	}
	b := p.page(id, freelistPage)
	if b == nil {
		return
	}
	n, ids := uint64(native.Uint16(b[10:])), b[pageHeader:]
	if n == 0xFFFF { // too many for the header: the first entry is the count
		n, ids = native.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		p.reportf(id, "lists %d free pages but has no room for them", n)
		return
	}
	for i := range n {
		free := native.Uint64(ids[8*i:])
		if free < 2 || free >= p.meta.pages {
			p.reportf(id, "lists page %d as free, which does not exist", free)
			continue
		}
		p.used[free] = min(p.used[free]+1, 2)
	}
}

// rootBucket checks the one bucket that a store's file has, at the root.
func (p *pageReader) rootBucket() {
	b := p.page(p.meta.root, leafPage)
	if b == nil {
		return
	}
	elems := p.elements(p.meta.root, b)
	if len(elems) != 1 || elems[0].flags != 1 || !bytes.Equal(elems[0].key, boltBucket) || len(elems[0].value) < bucketSize {
		p.reportf(p.meta.root, "does not hold the store's bucket")
		return
	}
	head, inline := elems[0].value[:bucketSize], elems[0].value[bucketSize:]
	switch root := native.Uint64(head); {
	case native.Uint64(head[8:]) != 0:
		p.reportf(p.meta.root, "holds a bucket with a sequence")
	case root != 0 && len(inline) == 0:
		p.tree(root, nil, nil, 0)
	case root == 0 && len(inline) >= pageHeader && native.Uint16(inline[8:]) == leafPage &&
		native.Uint64(inline) == 0 && native.Uint32(inline[12:]) == 0:
		p.leaf(p.meta.root, p.elements(p.meta.root, inline), nil, nil)
	default:
		p.reportf(p.meta.root, "holds a bucket that makes no sense")
	}
	if p.keys == 0 {
		p.reportf(p.meta.root, "holds a store without any record")
	}
}

// tree checks the pages below page id, whose keys must be at least from and
// below to; nil is no bound.
func (p *pageReader) tree(id uint64, from, to []byte, depth int) {
	if depth > 32 || p.ctx.Err() != nil {
		if depth > 32 {
			p.reportf(id, "lies too deep")
		}
		return
	}
	b := p.page(id, branchPage, leafPage)
	if b == nil {
		return
	}
	elems := p.elements(id, b)
	if len(elems) == 0 {
		p.reportf(id, "is empty")
		return
	}
	if native.Uint16(b[8:]) == leafPage {
		p.leaf(id, elems, from, to)
		return
	}
	p.order(id, elems, from, to)
	for i, e := range elems {
		end := to
		if i+1 < len(elems) {
			end = elems[i+1].key
		}
		p.tree(e.child, e.key, end, depth+1)
	}
}

// leaf checks the entries of a leaf page.
func (p *pageReader) leaf(id uint64, elems []boltElem, from, to []byte) {
	p.order(id, elems, from, to)
	p.keys += len(elems)
	for _, e := range elems {
		if e.flags != 0 {
			p.reportf(id, "holds a bucket within a bucket")
			continue
		}
		if _, err := checkSum(e.key, e.value); err != nil && len(p.problems) < maxProblems {
			p.problems = append(p.problems, problemOf(e.key, err))
		}
	}
}

func (p *pageReader) order(id uint64, elems []boltElem, from, to []byte) {
	for i, e := range elems {
		if i > 0 && bytes.Compare(elems[i-1].key, e.key) >= 0 {
			p.reportf(id, "has its keys out of order")
			return
		}
	}
	first, last := elems, elems
	if len(elems) > 0 && ((from != nil && bytes.Compare(first[0].key, from) < 0) ||
		(to != nil && bytes.Compare(last[len(last)-1].key, to) >= 0)) {
		p.reportf(id, "holds keys that belong to another page")
	}
}

// A boltElem is one element of a branch page (child) or leaf page (value).
type boltElem struct {
	flags      uint32
	child      uint64
	key, value []byte
}

// elements reads the elements of a page. bbolt packs them without gaps behind
// their table, in order; anything else is damage.
func (p *pageReader) elements(id uint64, b []byte) []boltElem {
	n := int(native.Uint16(b[10:]))
	isLeaf := native.Uint16(b[8:]) == leafPage
	at := pageHeader + n*elemSize
	if at > len(b) {
		p.reportf(id, "says that it has %d elements, for which it has no room", n)
		return nil
	}
	elems := make([]boltElem, 0, n)
	for i := range n {
		off := pageHeader + i*elemSize
		e, pos, klen, vlen := parseElem(b[off:], isLeaf)
		if off+pos != at || klen == 0 || klen > len(b)-at || vlen > len(b)-at-klen {
			p.reportf(id, "has a damaged element %d", i)
			return nil
		}
		e.key, e.value = b[at:at+klen], b[at+klen:at+klen+vlen]
		at += klen + vlen
		elems = append(elems, e)
	}
	if id != p.meta.root && n > 0 && (int64(at)+p.meta.pageSize-1)/p.meta.pageSize*p.meta.pageSize != int64(len(b)) {
		p.reportf(id, "is larger than what it holds")
		return nil
	}
	return elems
}

func parseElem(b []byte, isLeaf bool) (e boltElem, pos, klen, vlen int) {
	if isLeaf {
		e.flags = native.Uint32(b)
		return e, int(native.Uint32(b[4:])), int(native.Uint32(b[8:])), int(native.Uint32(b[12:]))
	}
	e.child = native.Uint64(b[8:])
	return e, int(native.Uint32(b)), int(native.Uint32(b[4:])), 0
}
