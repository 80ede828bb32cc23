package bmc_test

import (
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/store"
	"bessemer/store/storetest"
)

// What a driver notes is there for the driver that the next process opens.
func TestSessionsAreNoted(t *testing.T) {
	db := storetest.Open(t)
	noted := func(db *store.DB) bmc.Sessions {
		t.Helper()
		var got bmc.Sessions
		types := bmc.Types{"x": {Open: func(target bmc.Target) (bmc.Driver, error) {
			got = target.Sessions
			return fake.New(), nil
		}}}
		p := bmc.NewPool(types, &storetest.Recorder{}, bmc.PoolOptions{DB: db})
		t.Cleanup(func() { p.Close() })
		if _, err := p.Client(&store.Node{UUID: "n", Driver: "x"}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	s := noted(db)
	if s.Left() != "" {
		t.Errorf("%q is noted at first", s.Left())
	}
	s.Opened("https://bmc/1")
	s.Opened("https://bmc/2")
	next := noted(db)
	next.Ended("https://bmc/1") // of an earlier client, and late
	if next.Left() != "https://bmc/2" {
		t.Errorf("%q is noted, want the newest", next.Left())
	}
	next.Ended("https://bmc/2")
	next.Ended("https://bmc/2")
	if s.Left() != "" {
		t.Errorf("%q is noted after its end", s.Left())
	}
	none := noted(nil)
	none.Opened("https://bmc/3")
	none.Ended("https://bmc/3")
	if none.Left() != "" {
		t.Error("noted without a store")
	}
}
