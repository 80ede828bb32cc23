package conductor

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"bessemer/pxe"
	"bessemer/store"
)

// An index answers from memory what the boot servers ask for each packet. It
// follows the store: what the conductor saves it is told, and every NodeChanged
// reloads one node.
type index struct {
	reloading sync.Mutex // over read and change, so that the newest read is what stays

	mu     sync.RWMutex
	byMAC  map[string]string // node by MAC
	nodes  map[string]*bootNode
	tokens map[string]string // node by the token of its run
	seen   map[string]*sighting
}

// A bootNode is what the index knows of a node.
type bootNode struct {
	uuid  string
	macs  []string
	state store.ProvisionState
	run   uint64
	trace string

	workflow, step string

	boot  *store.RamdiskBoot
	image string // the stored image that the run writes, "" for none

	rev uint64 // of the node's record that this is from; with each save of a run it grows
}

// follow takes up what a transaction has saved of a node's run, and as which
// revision of the node. It is false for a node that is not known yet.
func (x *index) follow(n *store.Node, r *store.Run, rev uint64) bool {
	b := &bootNode{uuid: n.UUID, state: n.ProvisionState, rev: rev}
	if n.Run != 0 {
		b.of(r)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.nodes[n.UUID]
	if old == nil || old.rev > rev {
		return old != nil
	}
	if old.boot != nil {
		delete(x.tokens, old.boot.Token)
	}
	b.macs = old.macs
	x.nodes[n.UUID] = b
	if b.boot != nil {
		x.tokens[b.boot.Token] = n.UUID
	}
	return true
}

// of takes over what a run says.
func (b *bootNode) of(r *store.Run) {
	b.run, b.trace, b.workflow, b.step = r.ID, r.Trace, r.Workflow, r.Step
	if r.Ramdisk != nil {
		boot := *r.Ramdisk // the run goes on changing
		b.boot = &boot
	}
	b.image, _ = r.Data["image"].(string)
}

// A sighting is the last that was heard of a machine.
type sighting struct {
	What string
	At   time.Time
	mode string // boot mode of its firmware, as far as it has said

	power   time.Time // when its power state was read, or set
	claimed time.Time // when the agent's token was given
	beat    time.Time // of the last heartbeat

	repeated string // the agent's token that was asked for again, from the address that it was given to
}

func newIndex() *index {
	return &index{byMAC: map[string]string{}, nodes: map[string]*bootNode{}, tokens: map[string]string{}, seen: map[string]*sighting{}}
}

// load reads all nodes.
func (x *index) load(db *store.DB) error {
	var uuids []string
	err := db.View(func(tx *store.Tx) error {
		for n, err := range store.Nodes.PeekAll(tx) {
			if err != nil {
				return err
			}
			uuids = append(uuids, n.UUID)
		}
		return nil
	})
	for _, uuid := range uuids {
		if err != nil {
			break
		}
		_, err = x.reload(db, uuid)
	}
	return err
}

// reload reads one node. gone says that there is no such node any more.
func (x *index) reload(db *store.DB, uuid string) (gone bool, err error) {
	x.reloading.Lock()
	defer x.reloading.Unlock()
	for {
		b, err := readBootNode(db, uuid)
		if err != nil {
			return false, err
		}
		if x.replace(uuid, b) {
			return b == nil, nil
		}
	}
}

// replace takes up what was read of a node, nil for one that has gone. It is
// false when something newer was saved meanwhile.
func (x *index) replace(uuid string, b *bootNode) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.nodes[uuid]; old != nil && b != nil && old.rev > b.rev {
		return false
	}
	x.remove(uuid)
	if b == nil {
		delete(x.seen, uuid)
		return true
	}
	x.nodes[uuid] = b
	for _, mac := range b.macs {
		x.byMAC[mac] = uuid
	}
	if b.boot != nil {
		x.tokens[b.boot.Token] = uuid
	}
	return true
}

func (x *index) remove(uuid string) {
	old := x.nodes[uuid]
	if old == nil {
		return
	}
	delete(x.nodes, uuid)
	for _, mac := range old.macs {
		if x.byMAC[mac] == uuid {
			delete(x.byMAC, mac)
		}
	}
	if old.boot != nil {
		delete(x.tokens, old.boot.Token)
	}
}

func readBootNode(db *store.DB, uuid string) (b *bootNode, err error) {
	err = db.View(func(tx *store.Tx) error {
		b = nil
		n, err := store.Nodes.Get(tx, uuid)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		b = &bootNode{uuid: n.UUID, state: n.ProvisionState}
		if b.rev, err = store.Nodes.Rev(tx, uuid); err != nil {
			return err
		}
		for p, err := range store.Ports.Where(tx, "node_uuid", uuid) {
			if err != nil {
				return err
			}
			b.macs = append(b.macs, strings.ToLower(p.Address))
		}
		if n.Run == 0 {
			return nil
		}
		r, err := store.Runs.Get(tx, store.RunKey(n.Run))
		if err != nil {
			return err
		}
		b.of(r)
		return nil
	})
	return b, err
}

// find returns the node that a MAC belongs to.
func (x *index) find(mac net.HardwareAddr) (bootNode, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	b := x.nodes[x.byMAC[mac.String()]]
	if b == nil {
		return bootNode{}, false
	}
	return *b, true
}

// ofToken returns the node whose run's boot has the token.
func (x *index) ofToken(token string) (bootNode, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	b := x.nodes[x.tokens[token]]
	if token == "" || b == nil {
		return bootNode{}, false
	}
	return *b, true
}

// get returns a node.
func (x *index) get(uuid string) (bootNode, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	b := x.nodes[uuid]
	if b == nil {
		return bootNode{}, false
	}
	return *b, true
}

// saw notes that something was heard of a node.
func (x *index) saw(uuid, what string, arch pxe.Arch) {
	x.note(uuid, what, func(s *sighting) {
		if m := modeOf(arch); m != "" {
			s.mode = m
		}
	})
}

func (x *index) note(uuid, what string, more func(*sighting)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.seen[uuid]
	if s == nil {
		s = &sighting{}
		x.seen[uuid] = s
	}
	s.What, s.At = what, time.Now()
	more(s)
}

// sawPower notes that a node's power state is known as of now.
func (x *index) sawPower(uuid string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.seen[uuid]
	if s == nil {
		s = &sighting{}
		x.seen[uuid] = s
	}
	s.power = time.Now()
}

// powerSeen reports whether a node's power state was seen within a time.
func (x *index) powerSeen(uuid string, within time.Duration) bool {
	at := x.lastSeen(uuid).power
	return !at.IsZero() && time.Since(at) < within
}

func (x *index) lastSeen(uuid string) sighting {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.seen[uuid]; s != nil {
		return *s
	}
	return sighting{}
}

func (x *index) bootMode(uuid string) string { return x.lastSeen(uuid).mode }

// modeOf returns the boot mode of a firmware that names an architecture.
func modeOf(a pxe.Arch) string {
	switch a {
	case pxe.BIOS, pxe.BIOSHTTP:
		return "bios"
	case pxe.IA32, pxe.X64, pxe.EBC, pxe.ARM32, pxe.ARM64, pxe.IA32HTTP, pxe.X64HTTP, pxe.ARM32HTTP, pxe.ARM64HTTP:
		return "uefi"
	}
	return ""
}

// recall notes something that was heard of a node at an earlier time.
func (x *index) recall(uuid, what string, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.seen[uuid]; s == nil || s.At.Before(at) {
		x.seen[uuid] = &sighting{What: what, At: at}
	}
}
