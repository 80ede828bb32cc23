package boot

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Modules are the kernel modules of the ramdisk. Its index files are depmod's.
type Modules struct {
	dir     string              // /lib/modules/VERSION
	paths   map[string]string   // module → file below dir
	depends map[string][]string // module → modules that it needs, all of them, first to be loaded first
	pre     map[string][]string // soft dependencies
	post    map[string][]string
	aliases aliasIndex
	options map[string]string // module → parameters, from the kernel's command line
	refused map[string]bool   // modprobe.blacklist

	mu     sync.Mutex
	loaded map[string]*load
	insert func(file, params string) error
}

// A load is one module being loaded, once for all that want it.
type load struct {
	once sync.Once
	err  error
}

// OpenModules reads the indexes in dir; args are the kernel's command line.
func OpenModules(dir string, args map[string]string) (*Modules, error) {
	m := &Modules{
		dir: dir, paths: map[string]string{}, depends: map[string][]string{},
		pre: map[string][]string{}, post: map[string][]string{},
		options: moduleOptions(args), refused: map[string]bool{},
		loaded: map[string]*load{}, insert: insertModule,
	}
	for name := range strings.SplitSeq(args["modprobe.blacklist"], ",") {
		m.refused[moduleName(name)] = true
	}
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("open kernel modules: %w", err)
	}
	m.readDependencies(string(dep))
	alias, err := os.ReadFile(filepath.Join(dir, "modules.alias"))
	if err != nil {
		return nil, fmt.Errorf("open kernel modules: %w", err)
	}
	m.aliases = parseAliases(string(alias))
	soft, _ := os.ReadFile(filepath.Join(dir, "modules.softdep")) // older ramdisks may have none
	m.readSoft(string(soft))
	return m, nil
}

// moduleName is the kernel's name of a module or of a module's file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func (m *Modules) readDependencies(text string) {
	for line := range strings.Lines(text) {
		file, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		name := moduleName(file)
		m.paths[name] = file
		for _, d := range strings.Fields(needs) {
			m.depends[name] = append(m.depends[name], moduleName(d))
		}
		slices.Reverse(m.depends[name]) // depmod writes the last one to be loaded first
	}
}

func (m *Modules) readSoft(text string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "softdep" {
			continue
		}
		list, name := m.pre, words[1]
		for _, w := range words[2:] {
			switch w {
			case "pre:":
				list = m.pre
			case "post:":
				list = m.post
			default:
				list[name] = append(list[name], moduleName(w))
			}
		}
	}
}

// moduleOptions finds parameters of modules on the kernel's command line:
// "mlx4_core.log_num_mac=1".
func moduleOptions(args map[string]string) map[string]string {
	options := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		if module, parameter, ok := strings.Cut(key, "."); ok && module != "modprobe" {
			name := moduleName(module)
			options[name] = strings.TrimSpace(options[name] + " " + parameter + "=" + args[key])
		}
	}
	return options
}

// Match returns the modules that are for a device, by its modalias.
func (m *Modules) Match(modalias string) []string { return m.aliases.match(modalias) }

// Load loads a module and all that it needs. One that the kernel has built in,
// or does not have, is no error: so the same names serve different kernels.
func (m *Modules) Load(name string) error {
	name = moduleName(name)
	if m.refused[name] {
		return nil
	}
	var errs []error
	for _, n := range m.order(name) {
		if err := m.loadOne(n); err != nil {
			if n == name || slices.Contains(m.depends[name], n) {
				errs = append(errs, fmt.Errorf("load kernel module %s: %w", n, err))
			}
		}
	}
	return errors.Join(errs...)
}

// order lists what is to be loaded for name, in this order. It is complete
// before anything is loaded, so that loads that wait for each other cannot
// wait in a circle.
func (m *Modules) order(name string) []string {
	var all []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if seen[name] || m.paths[name] == "" {
			return
		}
		seen[name] = true
		for _, before := range [][]string{m.depends[name], m.pre[name]} {
			for _, d := range before {
				visit(d)
			}
		}
		all = append(all, name)
		for _, d := range m.post[name] {
			visit(d)
		}
	}
	visit(name)
	return all
}

func (m *Modules) loadOne(name string) error {
	m.mu.Lock()
	l := m.loaded[name]
	if l == nil {
		l = &load{}
		m.loaded[name] = l
	}
	m.mu.Unlock()
	l.once.Do(func() { l.err = m.insert(filepath.Join(m.dir, m.paths[name]), m.options[name]) })
	return l.err
}

// Loaded returns the names of the modules that were loaded.
func (m *Modules) Loaded() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.loaded))
}

// anyLoaded reports whether one of the modules was loaded.
func (m *Modules) anyLoaded(names []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(names, func(n string) bool { return m.loaded[n] != nil })
}

// insertModule gives a module to the kernel. A driver that finds none of its
// hardware (ENODEV) is not there for this machine.
func insertModule(file, params string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), params, 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// Modprobe loads the modules that the kernel asks for: it runs /sbin/modprobe,
// which is this program under another name. It returns the exit code.
func Modprobe(args []string) int {
	m, err := OpenModules(modulesDir(), readCmdline().Args)
	if err != nil {
		return 1
	}
	code := 1
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		for _, name := range append(m.Match(arg), arg) {
			if m.paths[moduleName(name)] != "" && m.Load(name) == nil {
				code = 0
			}
		}
	}
	return code
}

func modulesDir() string {
	var un unix.Utsname
	_ = unix.Uname(&un) // cannot fail
	return filepath.Join("/lib/modules", unix.ByteSliceToString(un.Release[:]))
}
