package ramdisk

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A moduleSet finds modules in a modules directory and collects those that are
// to be packed. It is our own depmod: Debian's kernel packages bring no
// modules.dep, and reading the chosen modules' own headers is all it needs.
type moduleSet struct {
	dir     string
	files   map[string]string // module name → path below dir
	builtin map[string]bool
	aliases map[string]string // "crc32c" → crc32c_generic, from crypto and lib; read on first need
	picked  map[string]*module
	order   []string // of picked: dependencies first
	missing []string // dependencies that could not be found
}

// openModules lists the modules below dir.
func openModules(dir string) (*moduleSet, error) {
	s := &moduleSet{dir: dir, files: map[string]string{}, builtin: map[string]bool{}, picked: map[string]*module{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// build and source link to the kernel's source; WalkDir does not follow.
		if rel, _ := filepath.Rel(dir, p); d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			s.files[moduleName(d.Name())] = rel
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list kernel modules: %w", err)
	}
	for _, path := range lines(filepath.Join(dir, "modules.builtin")) {
		s.builtin[moduleName(path)] = true
	}
	if len(s.files) == 0 {
		return nil, fmt.Errorf("list kernel modules: there are none in %s; give the directory whose name is the kernel's version, such as lib/modules/6.1.0-57-amd64", dir)
	}
	return s, nil
}

func lines(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// pick adds a module with all that it depends on. It reports whether the
// kernel has the module at all, built in or not.
func (s *moduleSet) pick(ctx context.Context, name string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	name = strings.ReplaceAll(name, "-", "_")
	if s.picked[name] != nil || s.builtin[name] {
		return true, nil
	}
	file, ok := s.files[name]
	if !ok {
		return false, nil
	}
	data, err := readFile(filepath.Join(s.dir, file))
	if err != nil {
		return false, fmt.Errorf("read kernel module: %w", err)
	}
	m, err := parseModule(file, data)
	if err != nil {
		return false, err
	}
	s.picked[name] = m
	if err := s.pickDependencies(ctx, m); err != nil {
		return false, err
	}
	s.order = append(s.order, name)
	return true, nil
}

func (s *moduleSet) pickDependencies(ctx context.Context, m *module) error {
	for _, d := range m.depends {
		found, err := s.pick(ctx, d)
		if err != nil {
			return err
		}
		if !found {
			s.missing = append(s.missing, fmt.Sprintf("%s, which %s needs", d, m.name))
		}
	}
	for i, soft := range [][]string{m.pre, m.post} {
		for j, d := range soft {
			real, err := s.resolve(ctx, d)
			if err != nil {
				return err
			}
			if i == 0 {
				m.pre[j] = real
			} else {
				m.post[j] = real
			}
			if _, err := s.pick(ctx, real); err != nil { // a missing one is what "soft" means
				return err
			}
		}
	}
	return nil
}

// resolve turns the name of a soft dependency into a module's name: some are
// aliases such as crc32c, which is any module with that algorithm.
func (s *moduleSet) resolve(ctx context.Context, name string) (string, error) {
	if _, ok := s.files[name]; ok || s.builtin[name] {
		return name, nil
	}
	if s.aliases == nil {
		if err := s.readAliases(ctx); err != nil {
			return "", err
		}
	}
	if real, ok := s.aliases[name]; ok {
		return real, nil
	}
	return name, nil
}

// readAliases reads the aliases of the algorithms, where several modules may
// have the same: the generic one runs everywhere and wins.
func (s *moduleSet) readAliases(ctx context.Context) error {
	s.aliases = map[string]string{}
	names := make([]string, 0, len(s.files))
	for name, file := range s.files {
		if strings.HasPrefix(file, "kernel/crypto/") || strings.HasPrefix(file, "kernel/lib/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := readFile(filepath.Join(s.dir, s.files[name]))
		if err != nil {
			return fmt.Errorf("read kernel module: %w", err)
		}
		m, err := parseModule(s.files[name], data)
		if err != nil {
			return err
		}
		for _, a := range m.aliases {
			a = strings.ReplaceAll(a, "-", "_")
			if _, ok := s.aliases[a]; !ok || strings.HasSuffix(name, "_generic") {
				s.aliases[a] = name
			}
		}
	}
	return nil
}

// modules returns what was picked, in the order of their paths.
func (s *moduleSet) modules() []*module {
	all := make([]*module, 0, len(s.picked))
	for _, m := range s.picked {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return all
}
