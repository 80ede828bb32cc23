package dhcp

import (
	"errors"
	"testing"

	"bessemer/store"
	"bessemer/store/storetest"
)

// TestPortsOfANode follow what was changed of it, and leave the others alone.
func TestPortsOfANode(t *testing.T) {
	db := storetest.Open(t)
	put := func(ps ...*store.Port) {
		t.Helper()
		err := db.Update(func(tx *store.Tx) (err error) {
			for _, p := range ps {
				err = errors.Join(err, store.Ports.Put(tx, p))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &ports{db: db}
	put(&store.Port{UUID: "1", NodeUUID: "a", Address: "m1", PXEEnabled: true}, &store.Port{UUID: "2", NodeUUID: "b", Address: "m2", PXEEnabled: true})
	if err := p.refresh(); err != nil {
		t.Fatal(err)
	}
	want := func(mac string, q port, known bool) {
		t.Helper()
		if got, ok := p.get(mac); ok != known || got != q {
			t.Errorf("%s is %+v, %v", mac, got, ok)
		}
	}
	put(&store.Port{UUID: "1", NodeUUID: "a", Address: "m3", PXEEnabled: false}, &store.Port{UUID: "3", NodeUUID: "a", Address: "m4", PXEEnabled: true})
	put(&store.Port{UUID: "2", NodeUUID: "b", Address: "m2", PXEEnabled: false})
	if err := p.refreshNode("a"); err != nil {
		t.Fatal(err)
	}
	want("m1", port{}, false)
	want("m3", port{"a", false}, true)
	want("m4", port{"a", true}, true)
	want("m2", port{"b", true}, true)                                           // not asked about
	put(&store.Port{UUID: "3", NodeUUID: "b", Address: "m4", PXEEnabled: true}) // moves
	if err := errors.Join(p.refreshNode("b"), p.refreshNode("a")); err != nil {
		t.Fatal(err)
	}
	want("m4", port{"b", true}, true)
	want("m2", port{"b", false}, true)
	want("m3", port{"a", false}, true)
}
