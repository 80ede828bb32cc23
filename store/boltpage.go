package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

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
