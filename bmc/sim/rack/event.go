package rack

import "time"

// A Kind says what kind of thing happened to a machine.
type Kind string

// Kinds of events.
const (
	Power Kind = "power" // a power action was asked for: What, By
	Off   Kind = "off"   // the machine is off now
	Begin Kind = "start" // a start begins: Start is its number, What the boot mode
	Boot  Kind = "boot"  // What booted: "network", "disk", or "exit" for a boot script that boots nothing; Text has the evidence
	Agent Kind = "agent" // What the agent did: "runs" or "ended"; Text says where or why
	Write Kind = "write" // a disk was written to, from its opening to its closing
	Home  Kind = "home"  // the system on the disk runs and told who it is
	Hang  Kind = "hang"  // nothing goes on; Text says why
	Fault Kind = "fault" // injected faults hit: What kind, Count times
)

// A By says who caused an event.
type By string

// Causes.
const (
	ByBMC      By = "bmc"      // the controller was told to
	ByAgent    By = "agent"    // the agent ended the machine, or itself
	ByFirmware By = "firmware" // the firmware or a boot script
	ByCut      By = "cut"      // power was lost, or came back
	ByHand     By = "hand"     // a person at the machine: the rack's control
)

// An Event is one entry of a machine's journal.
type Event struct {
	Seq   uint64    `json:"seq"` // from 1, without gaps
	Time  time.Time `json:"time"`
	Start uint64    `json:"start,omitempty"` // the start that it belongs to; 0 before the first
	Kind  Kind      `json:"kind"`
	By    By        `json:"by,omitempty"`
	What  string    `json:"what,omitempty"`
	Text  string    `json:"text,omitempty"`

	// Of Write: First and Last are the lowest and the highest byte that
	// changed, Bytes how many were written,
	// zeroed or discarded.
	Disk  string `json:"disk,omitempty"`
	First int64  `json:"first,omitempty"`
	Last  int64  `json:"last,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`

	// Of Home.
	Hostname string `json:"hostname,omitempty"`
	Instance string `json:"instance,omitempty"` // UUID

	Lease string `json:"lease,omitempty"` // of Boot over the network: the machine's address
	Count int    `json:"count,omitempty"` // of Fault
}

// Totals count a machine's events from its first day on; the journal itself
// forgets old ones.
type Totals struct {
	Events   uint64           `json:"events"` // also the last event's number
	Starts   uint64           `json:"starts"`
	Power    map[By]int       `json:"power,omitempty"` // actions that were asked for, by who asked
	Networks int              `json:"networks,omitempty"`
	Disks    int              `json:"disks,omitempty"` // starts from a disk
	Homes    int              `json:"homes,omitempty"`
	Hangs    int              `json:"hangs,omitempty"`
	Faults   int              `json:"faults,omitempty"`
	Written  map[string]int64 `json:"written,omitempty"` // bytes, by disk, as the agent calls it: "/dev/sda"
}

// add counts an event.
func (t *Totals) add(e Event) {
	t.Events = e.Seq
	switch e.Kind {
	case Power:
		t.Power = count(t.Power, e.By, 1)
	case Begin:
		t.Starts = e.Start
	case Boot:
		switch e.What {
		case viaDisk:
			t.Disks++
		case viaNetwork:
			t.Networks++
		}
	case Write:
		t.Written = count(t.Written, e.Disk, e.Bytes)
	case Home:
		t.Homes++
	case Hang:
		t.Hangs++
	case Fault:
		t.Faults += e.Count
	}
}

// count adds to an entry of a map that may be nil.
func count[K comparable, V int | int64](m map[K]V, key K, n V) map[K]V {
	if m == nil {
		m = map[K]V{}
	}
	m[key] += n
	return m
}
