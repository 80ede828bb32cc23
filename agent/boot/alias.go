package boot

import (
	"path"
	"strings"
)

// An aliasIndex finds the modules for a device. A ramdisk has some ten
// thousand aliases with wildcards, a machine some hundred devices; so aliases
// are kept by the text before their first wildcard, and only those that agree
// with the device in it are compared.
type aliasIndex struct {
	byPrefix map[string][]alias
	lengths  []int // of the prefixes that occur
}

type alias struct{ pattern, module string }

// parseAliases reads modules.alias: "alias pci:v00001AF4d00001000sv* virtio_pci".
func parseAliases(text string) aliasIndex {
	index := aliasIndex{byPrefix: map[string][]alias{}}
	var seen [256]bool
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != "alias" || len(words[1]) >= len(seen) {
			continue
		}
		a := alias{pattern: plainAlias(words[1]), module: words[2]}
		prefix := a.pattern
		if i := strings.IndexAny(prefix, `*?[\`); i >= 0 {
			prefix = prefix[:i]
		}
		index.byPrefix[prefix] = append(index.byPrefix[prefix], a)
		if !seen[len(prefix)] {
			seen[len(prefix)] = true
			index.lengths = append(index.lengths, len(prefix))
		}
	}
	return index
}

// plainAlias lets path.Match compare: a slash is a letter here like any other.
func plainAlias(s string) string { return strings.ReplaceAll(s, "/", "\x01") }

// match returns the modules whose alias fits, each once, in no certain order.
func (x aliasIndex) match(modalias string) []string {
	modalias = plainAlias(strings.TrimSpace(modalias))
	var modules []string
	found := map[string]bool{}
	for _, n := range x.lengths {
		if n > len(modalias) {
			continue
		}
		for _, a := range x.byPrefix[modalias[:n]] {
			if ok, _ := path.Match(a.pattern, modalias); ok && !found[a.module] {
				found[a.module] = true
				modules = append(modules, a.module)
			}
		}
	}
	return modules
}
