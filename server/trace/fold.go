package trace

import (
	"slices"
	"time"

	"bessemer/store"
)

// maxBlock is how many lines a repeating exchange may have: a heartbeat passed
// on, with its answers, and a question about progress with its own.
const maxBlock = 8

// drawn is what a diagram shows of messages: repeats folded, and without the
// begin and end of steps, unless one failed.
func drawn(ms []store.Message) []line {
	ls := slices.DeleteFunc(lines(ms), func(l line) bool { return l.m.Kind == store.StepKind && !l.failed })
	return fold(ls)
}

// fold puts lines that repeat, alone or as an exchange of several, into one
// each that says how often. What failed or is unanswered is never folded.
func fold(ls []line) []line {
	var folded []line
	for i := 0; i < len(ls); {
		size, times := repeats(ls[i:])
		if times < 2 {
			folded = append(folded, ls[i])
			i++
			continue
		}
		for j := range size {
			folded = append(folded, merge(ls[i+j:i+size*times], size))
		}
		i += size * times
	}
	return folded
}

// repeats finds the exchange at the beginning of ls that repeats and covers
// most: its size in lines and how often it comes.
func repeats(ls []line) (size, times int) {
	for n := 1; n <= maxBlock && 2*n <= len(ls); n++ {
		t := 1
		for (t+1)*n <= len(ls) && sameBlock(ls[:n], ls[t*n:(t+1)*n]) {
			t++
		}
		if t > 1 && n*t > size*times {
			size, times = n, t
		}
	}
	return size, times
}

func sameBlock(a, b []line) bool {
	for i := range a {
		if !a[i].same(b[i]) {
			return false
		}
	}
	return true
}

// same reports whether two lines look the same but for their times.
func (l line) same(o line) bool {
	return l.kind == arrow && o.kind == arrow && l.from == o.from && l.to == o.to && l.m.Kind == o.m.Kind &&
		l.label == o.label && l.attempt == o.attempt && l.m.Kind != store.Self &&
		!l.failed && !o.failed && !l.pending && !o.pending
}

// merge puts every size-th line of ls into one, with their average times.
func merge(ls []line, size int) line {
	l, sum, last := ls[0], time.Duration(0), ls[0].m.Time
	n := 0
	for i := 0; i < len(ls); i += size {
		sum += ls[i].dur
		last = ls[i].m.Time
		n++
	}
	l.times, l.dur = n, sum/time.Duration(n)
	if !l.reply && n > 1 {
		l.every = last.Sub(l.m.Time) / time.Duration(n-1)
	}
	return l
}
