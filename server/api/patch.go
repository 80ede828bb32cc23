package api

import (
	"encoding/json"
	"regexp"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// A patchOp is one operation of a JSON patch.
type patchOp struct {
	Op    string           `json:"op"`
	Path  string           `json:"path"`
	Value *json.RawMessage `json:"value,omitempty"`
}

// root is the attribute that the operation changes, or changes inside of.
func (o patchOp) root() string {
	root, _, _ := strings.Cut(strings.TrimPrefix(o.Path, "/"), "/")
	return root
}

const (
	maxOps     = 1000
	maxPatched = 512 << 10 // bytes of an object's attributes
)

// patchPath is what Ironic allows as a path below 1.98: no escapes.
var patchPath = regexp.MustCompile(`^(/[^/~\x00-\x1f\x7f]+)+$`)

// patch reads the body as a JSON patch and checks its form.
func (c *call) patch() ([]patchOp, error) {
	var ops []patchOp
	if c.body == nil {
		return nil, invalid("Invalid request body: a list of JSON patch operations is needed")
	}
	if err := c.decode(&ops); err != nil {
		return nil, err
	}
	if len(ops) > maxOps {
		return nil, invalid("The patch has %d operations; at most %d are allowed", len(ops), maxOps)
	}
	for i := range ops {
		if err := ops[i].check(); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func (o *patchOp) check() error {
	if o.Op != "add" && o.Op != "replace" && o.Op != "remove" {
		return invalid("Invalid patch operation %s: it must be add, replace or remove", shown(o.Op))
	}
	if len(o.Path) > 1024 || strings.Count(o.Path, "/") > maxDepth || !patchPath.MatchString(o.Path) {
		return invalid("Invalid patch path %s", shown(o.Path))
	}
	if o.Op != "remove" && o.Value == nil {
		null := json.RawMessage("null")
		o.Value = &null
	}
	return nil
}

// applyPatch applies ops to an object's attributes. Attributes that are not
// among them cannot be added; those removed are absent from the result.
func applyPatch(doc map[string]any, ops []patchOp) (map[string]any, error) {
	for _, o := range ops {
		if o.Op == "add" && strings.Count(o.Path, "/") == 1 {
			if _, ok := doc[o.root()]; !ok {
				return nil, invalid("Adding a new attribute (%s) to the root of the resource is not allowed", o.Path)
			}
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	opts := jsonpatch.NewApplyOptions()
	opts.SupportNegativeIndices = false
	for _, o := range ops {
		one, _ := json.Marshal([]patchOp{o})
		p, err := jsonpatch.DecodePatch(one)
		if err != nil {
			return nil, couldNotApply(o, err)
		}
		if raw, err = p.ApplyWithOptions(raw, opts); err != nil {
			return nil, couldNotApply(o, err)
		}
		if len(raw) > maxPatched {
			return nil, invalid("The patch would make the object larger than the %d bytes allowed", maxPatched)
		}
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}

func couldNotApply(o patchOp, err error) error {
	return invalid("Couldn't apply patch operation %s %s. Reason: %s", o.Op, shown(o.Path), shownError(err))
}

// shownError is the library's reason without the value that it may quote.
func shownError(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}
