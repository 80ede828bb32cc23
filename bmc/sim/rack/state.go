package rack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bessemer/agent/hw"
	"bessemer/bmc"
	"bessemer/bmc/sim/flaw"
)

const (
	stateFile   = "state.json"
	journalFile = "journal.jsonl"
	consoleFile = "console.log"
	rackFile    = "rack.json"
	lockFile    = "lock"
)

// state is what a machine keeps without power.
type state struct {
	On       bool           `json:"on"` // it is on, or on its way to it
	Override bmc.Boot       `json:"override"`
	Mode     string         `json:"mode"`      // boot mode of the last start
	Next     string         `json:"next_mode"` // of the next one
	Entries  []hw.BootEntry `json:"entries,omitempty"`
	Order    []int          `json:"order,omitempty"`
	Quirks   []flaw.ID      `json:"quirks"`
	Totals   Totals         `json:"totals"` // some time before now; the journal has the rest
}

// layout is what a rack keeps: which machines there are.
type layout struct {
	Seed     uint64   `json:"seed"`
	BMC      string   `json:"bmc"`
	Network  string   `json:"network"`  // where the controllers' addresses begin
	Machines []string `json:"machines"` // the profile of each
}

// load reads a file of JSON; ok is false when there is none.
func load(path string, v any) (ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return true, nil
}

// save writes a file of JSON in the place of an older one.
func save(path string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = replaceFile(path, b)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
