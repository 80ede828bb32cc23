package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"bessemer/server/client"
)

// enrollAtOnce is how many machines are enrolled at a time.
const enrollAtOnce = 32

// newcomer in a node's extra says that it is being enrolled: until it is
// available for the first time it is not cleaned, since a simulated machine's
// disks are empty.
const newcomer = "simulated_newcomer"

// An enrollment is what a node of a simulated machine is made from.
type enrollment struct {
	Name       string
	Driver     string
	DriverInfo map[string]any
	Properties map[string]any
	MACs       []string
}

// An enroller makes simulated machines available: by the API, as any client
// would. Enrolling again changes nothing about nodes that are there, other
// than how their controllers are reached, and goes on with those that are not
// available yet.
type enroller struct {
	cl   *client.Client
	seen func(done, total int) // called after each machine, one call at a time; nil: nobody
}

// nodeNow is what matters of a node here.
type nodeNow struct {
	UUID       string         `json:"uuid"`
	Name       string         `json:"name"`
	State      string         `json:"provision_state"`
	Target     any            `json:"target_provision_state"`
	LastError  string         `json:"last_error"`
	DriverInfo map[string]any `json:"driver_info"`
	Extra      map[string]any `json:"extra"`
}

// inOrder is up to how many machines are made nodes of one after another, so
// that lists, which are in the order of making, have them in the order of their
// names.
const inOrder = 50

// all enrolls machines. The error names some that could not be, and says how
// many more there are.
func (e enroller) all(ctx context.Context, machines []enrollment) error {
	known, err := e.known(ctx)
	if err != nil {
		return err
	}
	atOnce := enrollAtOnce
	if len(machines) <= inOrder {
		atOnce = 1
	}
	nodes := make([]*nodeNow, len(machines))
	made := each(atOnce, machines, func(i int, m enrollment) (err error) {
		nodes[i], err = e.node(ctx, m, known[m.Name])
		return err
	})
	var mu sync.Mutex
	done := 0
	came := each(enrollAtOnce, machines, func(i int, _ enrollment) error {
		if nodes[i] == nil {
			return nil // told already
		}
		err := e.arrive(ctx, nodes[i])
		if err == nil && e.seen != nil {
			mu.Lock()
			defer mu.Unlock()
			done++
			e.seen(done, len(machines))
		}
		return err
	})
	return few(append(made, came...))
}

// each does something with all machines, so many at once, and returns what went
// wrong.
func each(atOnce int, machines []enrollment, do func(int, enrollment) error) (faults []error) {
	errs := make([]error, len(machines))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, m := range machines {
		group.Go(func() error {
			if err := do(i, m); err != nil {
				errs[i] = fmt.Errorf("enroll %s: %w", m.Name, err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in errs
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// few joins the first errors of many.
func few(errs []error) error {
	const shown = 3
	if len(errs) > shown {
		return fmt.Errorf("%w\nand %d more like these", errors.Join(errs[:shown]...), len(errs)-shown)
	}
	return errors.Join(errs...)
}

// known lists the nodes that are there, by name.
func (e enroller) known(ctx context.Context) (map[string]*nodeNow, error) {
	nodes := map[string]*nodeNow{}
	path := "/v1/nodes?limit=1000&fields=uuid,name,provision_state,target_provision_state,last_error,driver_info,extra"
	for path != "" {
		var page struct {
			Nodes []*nodeNow `json:"nodes"`
			Next  string     `json:"next"`
		}
		if err := e.cl.Get(ctx, path, &page); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for _, n := range page.Nodes {
			nodes[n.Name] = n
		}
		path = ""
		if u, err := url.Parse(page.Next); err == nil && page.Next != "" {
			path = u.RequestURI()
		}
	}
	return nodes, nil
}

// node finds or makes a machine's node.
func (e enroller) node(ctx context.Context, m enrollment, n *nodeNow) (*nodeNow, error) {
	if n == nil {
		return e.create(ctx, m)
	}
	return n, e.readdress(ctx, m, n)
}

// arrive brings a node to where it is available, from wherever it is.
func (e enroller) arrive(ctx context.Context, n *nodeNow) error {
	asked := map[string]bool{}
	for {
		verb := nextVerb(n)
		if verb == "" {
			return e.arrived(ctx, n)
		}
		if asked[verb] {
			return fmt.Errorf("it stays %s: %s", n.State, n.LastError)
		}
		asked[verb] = true
		if err := e.ask(ctx, n, verb); err != nil {
			return err
		}
	}
}

// nextVerb is what brings a node nearer to being available; "" for one that is
// or has been: what state it is in then is what somebody has asked for.
func nextVerb(n *nodeNow) string {
	if n.Extra[newcomer] == nil {
		return ""
	}
	switch n.State {
	case "enroll", "verifying":
		return "manage"
	case "manageable", "cleaning", "clean wait":
		return "provide"
	}
	return ""
}

// ask asks for a change of state, unless it goes on already, and waits for its
// end.
func (e enroller) ask(ctx context.Context, n *nodeNow, verb string) error {
	if n.State == "enroll" || n.State == "manageable" {
		if err := e.cl.Call(ctx, http.MethodPut, nodePath(n.UUID)+"/states/provision", map[string]any{"target": verb}, nil); err != nil {
			return fmt.Errorf("%s: %w", verb, err)
		}
	}
	if _, err := e.cl.WaitState(ctx, n.UUID, atRest, nil); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return e.cl.Get(ctx, nodePath(n.UUID), n)
}

// arrived sees to it that the node is cleaned from now on.
func (e enroller) arrived(ctx context.Context, n *nodeNow) error {
	if n.Extra[newcomer] == nil {
		return nil
	}
	return e.cl.Call(ctx, http.MethodPatch, nodePath(n.UUID), []map[string]any{
		{"op": "remove", "path": "/automated_clean"},
		{"op": "remove", "path": "/extra/" + newcomer},
	}, nil)
}

func (e enroller) create(ctx context.Context, m enrollment) (*nodeNow, error) {
	n := &nodeNow{}
	err := e.cl.Call(ctx, http.MethodPost, "/v1/nodes", map[string]any{
		"name": m.Name, "driver": m.Driver, "driver_info": m.DriverInfo, "properties": m.Properties,
		"resource_class": "simulated", "automated_clean": false, "extra": map[string]any{newcomer: true},
	}, n)
	if err != nil {
		return nil, err
	}
	return n, e.ports(ctx, m, n)
}

// ports makes those ports of a node that are not there.
func (e enroller) ports(ctx context.Context, m enrollment, n *nodeNow) error {
	var have struct {
		Ports []struct {
			Address string `json:"address"`
		} `json:"ports"`
	}
	if err := e.cl.Get(ctx, nodePath(n.UUID)+"/ports", &have); err != nil {
		return fmt.Errorf("list ports: %w", err)
	}
	for _, mac := range m.MACs {
		there := false
		for _, p := range have.Ports {
			there = there || p.Address == mac
		}
		if there {
			continue
		}
		if err := e.cl.Call(ctx, http.MethodPost, "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": mac}, nil); err != nil {
			return fmt.Errorf("add port %s: %w", mac, err)
		}
	}
	return nil
}

// readdress tells a node how its controller is reached now, and completes one
// whose ports were not all made.
func (e enroller) readdress(ctx context.Context, m enrollment, n *nodeNow) error {
	if n.Extra[newcomer] != nil {
		if err := e.ports(ctx, m, n); err != nil {
			return err
		}
	}
	var ops []map[string]any
	for _, k := range slices.Sorted(maps.Keys(m.DriverInfo)) {
		have := n.DriverInfo[k]
		if text := fmt.Sprint(have); text == "******" || text == fmt.Sprint(m.DriverInfo[k]) {
			continue // a password is not shown, and does not change
		}
		ops = append(ops, map[string]any{"op": "add", "path": "/driver_info/" + pointer(k), "value": m.DriverInfo[k]})
	}
	if len(ops) == 0 {
		return nil
	}
	return e.cl.Call(ctx, http.MethodPatch, nodePath(n.UUID), ops, nil)
}
