package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bessemer/store"
	"bessemer/store/storetest"
)

func node(i int) *store.Node {
	return &store.Node{
		UUID:           fmt.Sprintf("00000000-0000-0000-0000-%012d", i),
		Name:           fmt.Sprintf("node-%d", i),
		Driver:         "redfish",
		ProvisionState: store.Available,
		DriverInfo:     map[string]any{"redfish_address": "https://192.0.2.1", "redfish_password": "canary-" + fmt.Sprint(i)},
		Properties:     map[string]any{"cpus": 64.0, "nested": map[string]any{"list": []any{"a", 1.0, nil}}},
		Traits:         []string{"CUSTOM_A", "CUSTOM_B"},
		Interfaces:     map[string]string{"boot": "ipxe"},
		Reservation:    &store.Reservation{Holder: "host", Why: "deploy"},
	}
}

func put(t *testing.T, db *store.DB, nodes ...*store.Node) {
	t.Helper()
	err := db.Update(func(tx *store.Tx) error {
		for _, n := range nodes {
			if err := store.Nodes.Put(tx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, db *store.DB, fn func(*store.Tx) error) {
	t.Helper()
	if err := db.View(fn); err != nil {
		t.Fatal(err)
	}
}

func TestTable(t *testing.T) {
	db := storetest.Open(t)
	put(t, db, node(1), node(2), node(3))

	t.Run("get returns what was put", func(t *testing.T) {
		view(t, db, func(tx *store.Tx) error {
			got, err := store.Nodes.Get(tx, node(2).UUID)
			if diff := cmp.Diff(node(2), got); diff != "" {
				t.Errorf("node differs (-want +got):\n%s", diff)
			}
			return err
		})
	})
	t.Run("a copy may be changed at any depth", func(t *testing.T) {
		view(t, db, func(tx *store.Tx) error {
			for range 3 { // decoded, then from the cache
				got, err := store.Nodes.Get(tx, node(2).UUID)
				if err != nil {
					return err
				}
				if diff := cmp.Diff(node(2), got); diff != "" {
					t.Errorf("node differs (-want +got):\n%s", diff)
				}
				got.Properties["nested"].(map[string]any)["list"].([]any)[0] = "changed"
				got.Traits[0], got.Interfaces["boot"], got.Reservation.Why = "x", "x", "x"
			}
			return nil
		})
	})
	t.Run("index", func(t *testing.T) {
		view(t, db, func(tx *store.Tx) error {
			n, err := store.Nodes.By(tx, "name", "node-3")
			if err != nil || n.UUID != node(3).UUID {
				t.Errorf("By name = %v, %v", n, err)
			}
			var names []string
			for n, err := range store.Nodes.WhereFrom(tx, "provision_state", string(store.Available), node(2).UUID) {
				if err != nil {
					return err
				}
				names = append(names, n.Name)
			}
			if want := []string{"node-2", "node-3"}; !slices.Equal(names, want) {
				t.Errorf("names = %v, want %v", names, want)
			}
			return nil
		})
	})
	t.Run("unique conflict names the holder and changes nothing", func(t *testing.T) {
		n := node(4)
		n.Name = "node-1"
		err := db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, n) })
		var ke *store.KeyError
		if !errors.Is(err, store.ErrConflict) || !errors.As(err, &ke) || ke.Holder != node(1).UUID || ke.Index != "name" {
			t.Errorf("error = %#v", err)
		}
		view(t, db, func(tx *store.Tx) error {
			if _, err := store.Nodes.Get(tx, n.UUID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Get = %v", err)
			}
			return nil
		})
	})
	t.Run("a freed value may be taken", func(t *testing.T) {
		renamed := node(1)
		renamed.Name = "other"
		taker := node(5)
		taker.Name = "node-1"
		put(t, db, renamed, taker)
		view(t, db, func(tx *store.Tx) error {
			n, err := store.FindNode(tx, "node-1")
			if err != nil || n.UUID != taker.UUID {
				t.Errorf("FindNode = %v, %v", n, err)
			}
			return nil
		})
	})
	t.Run("revision", func(t *testing.T) {
		put(t, db, node(7))
		put(t, db, node(7))
		view(t, db, func(tx *store.Tx) error {
			rev, err := store.Nodes.Rev(tx, node(7).UUID)
			if rev != 2 || err != nil {
				t.Errorf("Rev = %d, %v", rev, err)
			}
			if _, err := store.Nodes.Rev(tx, "none"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Rev of none = %v", err)
			}
			return nil
		})
	})
	t.Run("delete", func(t *testing.T) {
		del := func(tx *store.Tx) error { return store.Nodes.Delete(tx, node(7).UUID) }
		if err := db.Update(del); err != nil {
			t.Fatal(err)
		}
		if err := db.Update(del); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("second delete = %v", err)
		}
		view(t, db, func(tx *store.Tx) error {
			if _, err := store.FindNode(tx, "node-7"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("FindNode = %v", err)
			}
			return nil
		})
	})
}

func TestBadKeys(t *testing.T) {
	db := storetest.Open(t)
	long := string(make([]byte, 64<<10))
	for _, n := range []*store.Node{
		{UUID: ""},
		{UUID: "a\x00b"},
		{UUID: long},
		{UUID: "x", Name: "a\x00b"},
		{UUID: "x", Name: fmt.Sprintf("%70000d", 1)},
	} {
		err := db.Update(func(tx *store.Tx) error { return store.Nodes.Put(tx, n) })
		if !errors.Is(err, store.ErrBadKey) {
			t.Errorf("Put(%.10q, %.10q) = %v, want ErrBadKey", n.UUID, n.Name, err)
		}
	}
	view(t, db, func(tx *store.Tx) error {
		for _, key := range []string{"", "a\x00b", long, "../../etc"} {
			if _, err := store.FindNode(tx, key); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("FindNode(%.10q) = %v, want ErrNotFound", key, err)
			}
		}
		return nil
	})
}
