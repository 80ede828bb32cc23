package server

import (
	"path/filepath"
	"testing"
)

// Two appliances on one host never give the same address, and one that is
// started again gives those that it gave.
func TestBlocks(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), blockFile), filepath.Join(t.TempDir(), blockFile)
	a, err := claimBlock(one)
	if err != nil {
		t.Fatal(err)
	}
	defer a.claim.Close()
	b, err := claimBlock(two)
	if err != nil {
		t.Fatal(err)
	}
	if a.n == b.n {
		t.Fatalf("both have 127.%d.0.0/16", a.n)
	}
	if !simulated.subnet.Contains(a.first()) || !simulated.subnet.Contains(b.last()) {
		t.Errorf("%s and %s are not in %s", a.first(), b.last(), simulated.subnet)
	}
	b.claim.Close()
	again, err := claimBlock(two)
	if err != nil || again.n != b.n {
		t.Errorf("started again it has 127.%d.0.0/16, had 127.%d.0.0/16, %v", again.n, b.n, err)
	}
	defer again.claim.Close()
}
