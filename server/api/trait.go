package api

import (
	"net/http"
	"slices"

	"bessemer/store"
)

// maxTraits is how many traits a node may have.
const maxTraits = 50

func listTraits(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{"traits": orNone(n.Traits)})
	return nil
}

func setTraits(c *call) error {
	var body struct {
		Traits *[]string `json:"traits"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	if body.Traits == nil {
		return invalid("A single node trait may be added via PUT /v1/nodes/<node identifier>/traits/<trait> with no body, or all node traits may be replaced via PUT /v1/nodes/<node identifier>/traits with the list of traits specified in the request body.")
	}
	for _, t := range *body.Traits {
		if err := checkTrait(t); err != nil {
			return err
		}
	}
	err := c.changeTraits(func(*store.Node) ([]string, error) { return *body.Traits, nil })
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func addTrait(c *call) error {
	if c.body != nil && string(c.body) != "{}" && string(c.body) != "null" {
		return invalid("No body should be provided when adding a trait")
	}
	t := c.path("trait")
	if err := checkTrait(t); err != nil {
		return err
	}
	err := c.changeTraits(func(n *store.Node) ([]string, error) { return append(slices.Clone(n.Traits), t), nil })
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.url("/v1/nodes/"+c.path("node")+"/traits/"+t))
	return c.empty(http.StatusNoContent)
}

func removeTraits(c *call) error {
	if err := c.changeTraits(func(*store.Node) ([]string, error) { return nil, nil }); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func removeTrait(c *call) error {
	t := c.path("trait")
	err := c.changeTraits(func(n *store.Node) ([]string, error) {
		i := slices.Index(n.Traits, t)
		if i < 0 {
			return nil, refuse(http.StatusNotFound, "Node %s doesn't have a trait %s", n.UUID, shown(t))
		}
		return slices.Delete(slices.Clone(n.Traits), i, i+1), nil
	})
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func checkTrait(t string) error {
	if len(t) > 255 || !traitName.MatchString(t) {
		return invalid("Invalid trait %s: it must be CUSTOM_ or a standard prefix and A-Z, 0-9, _", shown(t))
	}
	return nil
}

// changeTraits replaces a node's traits, sorted and each once.
func (c *call) changeTraits(change func(*store.Node) ([]string, error)) error {
	return c.changeNode(func(n *store.Node) error {
		if held(n) {
			return locked(n)
		}
		traits, err := change(n)
		if err != nil {
			return err
		}
		traits = slices.Clone(traits)
		slices.Sort(traits)
		if n.Traits = slices.Compact(traits); len(n.Traits) > maxTraits {
			return invalid("Error setting traits: node %s may have at most %d traits", n.UUID, maxTraits)
		}
		return nil
	})
}
