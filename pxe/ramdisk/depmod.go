package ramdisk

import (
	"fmt"
	"strings"
)

// indexes returns the files that depmod would write, for the packed modules
// alone: what the agent finds drivers by.
func (s *moduleSet) indexes() map[string][]byte {
	var dep, alias, soft strings.Builder
	for _, m := range s.modules() {
		dep.WriteString(strings.Join(append([]string{m.path + ":"}, s.dependencies(m)...), " ") + "\n")
		for _, a := range m.aliases {
			fmt.Fprintf(&alias, "alias %s %s\n", a, m.name)
		}
		if len(m.pre)+len(m.post) > 0 {
			soft.WriteString("softdep " + m.name + prefixed(" pre:", m.pre) + prefixed(" post:", m.post) + "\n")
		}
	}
	return map[string][]byte{
		"modules.dep":     []byte(dep.String()),
		"modules.alias":   []byte(alias.String()),
		"modules.softdep": []byte(soft.String()),
	}
}

func prefixed(word string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return word + " " + strings.Join(names, " ")
}

// dependencies returns the paths of all that m needs, such that loading them
// from last to first works, as modules.dep has them.
func (s *moduleSet) dependencies(m *module) []string {
	var order []string
	seen := map[string]bool{m.name: true}
	var visit func(names []string)
	visit = func(names []string) {
		for _, name := range names {
			if d := s.picked[name]; d != nil && !seen[name] {
				seen[name] = true
				visit(d.depends)
				order = append(order, d.path)
			}
		}
	}
	visit(m.depends)
	for i, j := 0, len(order)-1; i < j; i, j = i+1, j-1 {
		order[i], order[j] = order[j], order[i]
	}
	return order
}
