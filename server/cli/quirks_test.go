package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"bessemer/bmc/sim/flaw"
)

var update = flag.Bool("update", false, "rewrite QUIRKS.md")

const quirksFile = "../../QUIRKS.md"

func TestQuirksDocumentIsCurrent(t *testing.T) {
	var b bytes.Buffer
	if err := writeQuirks(&b, flaw.Rows()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(quirksFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(quirksFile)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("QUIRKS.md is not what the catalogue says (%v); run: go test ./server/cli -run Quirks -update", err)
	}
}

func TestEveryQuirkHasAnArea(t *testing.T) {
	seen := 0
	for _, a := range areas {
		rows, err := chosenQuirks(a.name, "")
		if err != nil {
			t.Fatal(err)
		}
		seen += len(rows)
	}
	if seen != len(flaw.Rows()) {
		t.Errorf("%d quirks are in an area, of %d", seen, len(flaw.Rows()))
	}
	for _, bad := range [][2]string{{"disks", ""}, {"", "done"}} {
		if _, err := chosenQuirks(bad[0], bad[1]); exitCode(err) != exitUsage {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestEveryFaultIsExplained(t *testing.T) {
	for _, k := range flaw.Kinds() {
		if faultText[k].does == "" || faultText[k].counts == "" {
			t.Errorf("%s is not explained", k)
		}
	}
	if len(faultText) != len(flaw.Kinds()) {
		t.Errorf("%d faults are explained, there are %d", len(faultText), len(flaw.Kinds()))
	}
	for _, example := range []string{"bmc-500:after=2,count=3", "packet-loss:rate=0.3", "disk-error:at=512K", "clock-jump:delay=-3h"} {
		if _, err := flaw.ParseFault(example); err != nil || !strings.Contains(faultKeysText, example) {
			t.Errorf("the example %s: %v", example, err)
		}
	}
}
