package bmc_test

import (
	"strings"
	"testing"

	"bessemer/bmc"
)

func TestFields(t *testing.T) {
	f := bmc.Target{DriverInfo: map[string]any{
		"number": float64(123456), "huge": 1e20, "list": []any{"x"}, "no": "False", "maybe": "perhaps", "port": "70000",
	}}.Fields()
	if got := f.String("number", ""); got != "123456" {
		t.Errorf("got %q, want the digits (I-07)", got)
	}
	if f.Bool("no", true) {
		t.Error(`"False" is true (I-14)`)
	}
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	f.String("huge", "")
	f.String("list", "")
	f.Bool("maybe", false)
	f.Int("port", 623, 1, 65535)
	f.Required("address")
	for _, key := range []string{"huge", "list", "maybe", "port", "address"} {
		if !strings.Contains(f.Err().Error(), key+": ") {
			t.Errorf("no fault of %s in %v", key, f.Err())
		}
	}
}
