package configs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Load returns the defaults, changed by the file (none for ""), then by the
// environment (as os.Environ gives it), then by flags (by Setting.Flag). It
// reports every fault at once.
func Load(file string, environ []string, flags map[string]string) (Config, error) {
	c := Default()
	settings := Settings(&c)
	var errs []error
	if file != "" {
		errs = append(errs, loadFile(file, settings)...)
	}
	errs = append(errs, loadEnv(environ, settings)...)
	for _, s := range settings {
		if text, ok := flags[s.Flag()]; ok {
			if err := s.Set(text); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", s.Flag(), err))
			}
		}
	}
	errs = append(errs, c.validate()...)
	return c, errors.Join(errs...)
}

func loadFile(file string, settings []Setting) []error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return []error{fmt.Errorf("read configuration: %w", err)}
	}
	doc, err := parser.ParseBytes(raw, 0)
	if err != nil {
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	var errs []error
	for _, d := range doc.Docs {
		errs = append(errs, walk(file, "", d.Body, settings)...)
	}
	return errs
}

// walk sets what a YAML node holds; prefix is the key of the node, with a dot.
func walk(file, prefix string, n ast.Node, settings []Setting) (errs []error) {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return []error{fmt.Errorf("%s:%d: %s is a section, not a value", file, n.GetToken().Position.Line, strings.TrimSuffix(prefix, "."))}
	}
	for _, p := range pairs {
		key := prefix + p.Key.GetToken().Value
		line := p.Key.GetToken().Position.Line
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == key })
		section := slices.ContainsFunc(settings, func(s Setting) bool { return strings.HasPrefix(s.Key, key+".") })
		switch {
		case section:
			errs = append(errs, walk(file, key+".", p.Value, settings)...)
		case i < 0:
			errs = append(errs, fmt.Errorf("%s:%d: unknown setting %s%s", file, line, key, nearest(key, settings)))
		default:
			text, err := scalar(p.Value)
			if err == nil {
				err = settings[i].Set(text)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, err))
			}
		}
	}
	return errs
}

// scalar returns a value as text; a sequence as its items with commas.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.SequenceNode:
		var items []string
		for _, v := range n.Values {
			s, err := scalar(v)
			if err != nil {
				return "", err
			}
			items = append(items, s)
		}
		return strings.Join(items, ","), nil
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", errors.New("a value is wanted here, not a section")
	}
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value, nil
	}
	return n.GetToken().Value, nil
}

func loadEnv(environ []string, settings []Setting) (errs []error) {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "BESSEMER_") || slices.Contains(notSettings, name) {
			continue
		}
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Env() == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("environment: %s is no setting", name))
			continue
		}
		if err := settings[i].Set(value); err != nil {
			errs = append(errs, fmt.Errorf("environment %s: %w", name, err))
		}
	}
	return errs
}

// notSettings are variables of ours that the command line reads itself.
var notSettings = []string{"BESSEMER_CONFIG", "BESSEMER_URL", "BESSEMER_USER", "BESSEMER_PASSWORD", "BESSEMER_TOKEN", "BESSEMER_CA", "BESSEMER_KERNEL_DIR", "BESSEMER_OUTPUT"}

// nearest suggests the setting that shares the last part of a wrong key.
func nearest(key string, settings []Setting) string {
	last := key[strings.LastIndex(key, ".")+1:]
	for _, s := range settings {
		if strings.HasSuffix(s.Key, "."+last) {
			return "; did you mean " + s.Key + "?"
		}
	}
	return ""
}
