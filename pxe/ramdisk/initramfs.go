package ramdisk

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// parts returns the content of the initramfs, and what it lacks.
func (in *inputs) parts(set *moduleSet) ([]part, []string, error) {
	base := "lib/modules/" + in.version + "/"
	modules := part{name: "modules"}
	for _, m := range set.modules() {
		modules.entries = append(modules.entries, entry{name: base + m.path, mode: typeFile | 0o644, data: m.data})
	}
	files, missing, err := firmware(in.FirmwareDir, set.modules())
	if err != nil {
		return nil, nil, err
	}
	agent := part{name: "agent", entries: []entry{
		{name: "init", mode: typeFile | 0o755, data: in.Agent},
		// The kernel asks user space for a module by running this program.
		{name: "sbin/modprobe", mode: typeLink | 0o777, data: []byte("../init")},
	}}
	return []part{{name: "other", entries: in.other(set, base)}, agent, modules, {name: "firmware", entries: files}}, missing, nil
}

// other is what is neither agent nor driver: mount points, the devices that
// must be there before /dev is mounted, indexes, certificates.
func (in *inputs) other(set *moduleSet, base string) []entry {
	var all []entry
	for _, d := range []string{"dev", "etc", "proc", "run", "sys", "tmp"} {
		all = append(all, entry{name: d, mode: typeDir | 0o755})
	}
	all = append(all,
		entry{name: "dev/console", mode: typeChar | 0o600, major: 5, minor: 1},
		entry{name: "dev/null", mode: typeChar | 0o666, major: 1, minor: 3})
	indexes := set.indexes()
	indexes["modules.builtin"], _ = os.ReadFile(filepath.Join(in.ModulesDir, "modules.builtin")) // not every kernel has it
	indexes["modules.load"] = []byte(strings.Join(in.Modules, "\n"))
	names := make([]string, 0, len(indexes))
	for name := range indexes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, entry{name: base + name, mode: typeFile | 0o644, data: indexes[name]})
	}
	if len(in.certs) > 0 {
		all = append(all, entry{name: "etc/ssl/certs/ca-certificates.crt", mode: typeFile | 0o644, data: in.certs})
	}
	return all
}

// A part is a group of files whose size is reported.
type part struct {
	name    string
	entries []entry
}

// writeInitramfs writes the compressed archive.
func writeInitramfs(ctx context.Context, w io.Writer, method string, parts []part) ([]Part, error) {
	out := &counter{w: w}
	z, err := newCompressor(method, out)
	if err != nil {
		return nil, err
	}
	in := &counter{w: z}
	archive := newCPIO(in)
	var sizes []Part
	for _, p := range parts {
		was, compressed := in.n, out.n
		for _, e := range p.entries {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := archive.add(e); err != nil {
				return nil, err
			}
		}
		if err := z.Flush(); err != nil {
			return nil, err
		}
		sizes = append(sizes, Part{Name: p.name, Files: len(p.entries), Size: in.n - was, Compressed: out.n - compressed})
	}
	if err := archive.close(); err != nil {
		return nil, err
	}
	return sizes, z.Close()
}
