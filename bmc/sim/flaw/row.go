package flaw

import (
	"fmt"
	"slices"
	"strings"
)

// An ID names a quirk: "B-02".
type ID string

// A Status says how far Bessemer stands up to a quirk.
type Status string

// Statuses.
const (
	// Flag: a simulated machine has the quirk when its flag is on, and a test
	// turns it on and sees the right answer.
	Flag Status = "flag"
	// Tested: no flag is needed to see it; a test holds the right behaviour.
	Tested Status = "tested"
	// Later: it concerns what Bessemer does not do yet.
	Later Status = "later"
)

// early are quirks that a simulated machine has by their flags although their
// rows are not Flag: Bessemer does not do yet what they are about, or the right
// answer is seen elsewhere than in the machine's life.
var early = []ID{"B-15", "B-22", "R-23", "V-01", "V-02", "V-03", "V-04", "V-05", "V-06", "V-07", "V-14", "N-08", "N-09", "A-04"}

// A Row is one quirk of the catalogue.
type Row struct {
	ID     ID
	Who    string // vendor or model that is known for it
	Does   string // what is seen
	Want   string // what Bessemer does about it
	Status Status
	Note   string // Later: why; else where it is tested, if not in the table of quirks
}

// Rows returns the whole catalogue, in order.
func Rows() []Row {
	return slices.Concat(bootRows, redfishRows, mediaRows, ipmiRows, netbootRows, inventoryRows, diskRows, agentRows)
}

// Find returns the row of an id.
func Find(id ID) (Row, bool) {
	rows := Rows()
	i := slices.IndexFunc(rows, func(r Row) bool { return r.ID == id })
	if i < 0 {
		return Row{}, false
	}
	return rows[i], true
}

// Flagged reports whether a simulated machine has the quirk when it is told to.
func (r Row) Flagged() bool { return r.Status == Flag || slices.Contains(early, r.ID) }

// HasFlag reports whether there is a quirk of that id that a simulated machine
// has when it is told to.
func HasFlag(id ID) bool {
	r, ok := Find(id)
	return ok && r.Flagged()
}

// ParseIDs reads "B-02,R-06". Every id must be that of a quirk with a flag; the
// error names all that are not.
func ParseIDs(text string) (ids []ID, err error) {
	var bad []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		id := ID(strings.ToUpper(word))
		if !HasFlag(id) {
			bad = append(bad, word)
			continue
		}
		ids = append(ids, id)
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("no quirk with a flag: %s; `bessemer sim quirks` lists them", strings.Join(bad, ", "))
	}
	return ids, nil
}
