package store

import (
	"context"
	"iter"
	"sync"
)

// A Change says that a record was stored or deleted.
type Change struct {
	Pos     uint64 // where in the order of all changes; see [DB.Watch]
	Table   string
	Key     string
	Rev     uint64 // the new revision; 0 when deleted
	Deleted bool
}

// feedSize is how many changes are kept for those who watch.
const feedSize = 8192

// A feed is the newest changes, in the order of their commits. Watchers read
// from it at their own pace and have no buffers: one that is too slow finds
// its place overwritten.
type feed struct {
	mu     sync.Mutex
	ring   []Change
	next   uint64 // position of the next change
	oldest uint64 // position of the oldest change that is kept
	more   chan struct{}
	closed bool
}

// newFeed returns a feed whose first position is start. It begins at the time
// of day, so that a position of an earlier process is never taken for one of
// this.
func newFeed(start uint64) feed {
	return feed{ring: make([]Change, feedSize), next: start, oldest: start, more: make(chan struct{})}
}

func (f *feed) publish(changes []Change) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		c.Pos = f.next
		f.ring[f.next%feedSize] = c
		f.next++
	}
	if f.next-f.oldest > feedSize {
		f.oldest = f.next - feedSize
	}
	close(f.more)
	f.more = make(chan struct{})
}

// forget has all who follow the store read anew: what has changed is not known.
func (f *feed) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.oldest = f.next
	close(f.more)
	f.more = make(chan struct{})
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	close(f.more)
	f.more = make(chan struct{})
}

// after returns the change that follows position pos, or a channel that is
// closed when there may be one.
func (f *feed) after(pos uint64) (c Change, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return c, nil, ErrClosed
	case pos+1 < f.oldest || pos >= f.next:
		return c, nil, ErrBehind
	case pos+1 == f.next:
		return c, f.more, nil
	}
	return f.ring[(pos+1)%feedSize], nil, nil
}

// Position returns the position of the newest change. To follow a set of
// records without gaps: take the position, read the records, then Watch from
// the position; a change that the reading saw already may come again.
func (db *DB) Position() uint64 {
	db.feed.mu.Lock()
	defer db.feed.mu.Unlock()
	return db.feed.next - 1
}

// ChangesSince returns the changes behind position after, up to the newest, and
// the position to ask from next. It does not wait. What was written before it
// was called is among them, or, when that is too much to be remembered or not
// known since the disk failed, the error is ErrBehind.
func (db *DB) ChangesSince(after uint64) (changes []Change, upto uint64, err error) {
	f := &db.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, after, ErrClosed
	}
	if after+1 < f.oldest || after >= f.next {
		return nil, after, ErrBehind
	}
	for pos := after + 1; pos < f.next; pos++ {
		changes = append(changes, f.ring[pos%feedSize])
	}
	return changes, f.next - 1, nil
}

// Watch yields the changes behind position after, in the order of their
// commits, and waits for more until ctx ends. It ends with ErrBehind when
// after is from before the last start, or when the caller was so slow that the
// changes behind its position were forgotten; with ErrClosed when the store is
// closed; with ctx's error. The position to resume from is that of the last
// change it yielded.
func (db *DB) Watch(ctx context.Context, after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for pos := after; ; {
			c, more, err := db.feed.after(pos)
			if more != nil {
				select {
				case <-more:
					continue
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
			pos = c.Pos
		}
	}
}
