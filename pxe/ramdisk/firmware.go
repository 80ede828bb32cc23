package ramdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// firmwareEndings are those under which distributions keep a firmware file.
var firmwareEndings = []string{"", ".xz", ".zst"}

// firmware returns the firmware files that the modules ask for and dir has,
// as entries of the initramfs, and the names of those it has not. Names with
// wildcards are expanded.
func firmware(dir string, modules []*module) (files []entry, missing []string, err error) {
	want := map[string]bool{}
	for _, m := range modules {
		for _, name := range m.firmware {
			if filepath.IsLocal(name) {
				want[name] = true
			}
		}
	}
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	slices.Sort(names)
	packed := map[string]bool{}
	for _, name := range names {
		found, err := findFirmware(dir, name)
		if err != nil {
			return nil, nil, err
		}
		if len(found) == 0 {
			missing = append(missing, name)
		}
		for _, e := range found {
			if !packed[e.name] {
				packed[e.name] = true
				files = append(files, e)
			}
		}
	}
	return files, missing, nil
}

func findFirmware(dir, name string) ([]entry, error) {
	if dir == "" {
		return nil, nil
	}
	for _, ending := range firmwareEndings {
		matches, err := filepath.Glob(filepath.Join(dir, name+ending))
		if err != nil {
			return nil, fmt.Errorf("find firmware %s: %w", name, err)
		}
		var files []entry
		for _, file := range matches {
			data, err := readFile(file)
			if errors.Is(err, fs.ErrNotExist) { // a dangling link
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read firmware: %w", err)
			}
			rel, _ := filepath.Rel(dir, file)
			files = append(files, entry{name: "lib/firmware/" + strings.TrimSuffix(rel, ending), mode: typeFile | 0o644, data: data})
		}
		if len(files) > 0 {
			return files, nil
		}
	}
	return nil, nil
}
