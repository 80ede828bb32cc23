package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bessemer/store"
)

// tidyPatience is how long a request waits for a run that tidies up to end:
// as long as Ironic waits for a node's lock.
const tidyPatience = 3 * time.Second

// Provision implements [API]. The state of a node whose run was aborted is one
// from which clients may go on at once, although the run still tidies up.
func (c *Conductor) Provision(ctx context.Context, node string, r ProvisionRequest) error {
	for end := time.Now().Add(tidyPatience); ; {
		err := c.provision(ctx, node, r)
		if !errors.Is(err, ErrLocked) || time.Now().After(end) || !c.tidies(node) || !sleep(ctx, 50*time.Millisecond) {
			return err
		}
	}
}

// provision checks everything that can be known at once before anything is
// changed.
func (c *Conductor) provision(ctx context.Context, node string, r ProvisionRequest) error {
	n, err := c.node(node)
	if err != nil {
		return err
	}
	if err := allowed(n, r.Target); err != nil {
		return err
	}
	switch r.Target {
	case "active", "deploy":
		return c.deploy(ctx, n, r, "deploy")
	case "rebuild":
		return c.deploy(ctx, n, r, "rebuild")
	case "deleted", "undeploy":
		return c.undeploy(ctx, n)
	case "manage":
		return c.manage(ctx, n)
	case "provide":
		return c.provide(ctx, n)
	case "clean":
		return c.clean(ctx, n, r)
	case "abort":
		return c.abort(ctx, n)
	}
	return fmt.Errorf("%w: %q is not supported yet by this release", ErrInvalid, clip(r.Target, 50))
}

// allowed checks a verb against the state table and the node's flags.
func allowed(n *store.Node, verb string) error {
	if !slices.Contains(Verbs, verb) {
		return fmt.Errorf("%w: there is no provision target %q; use one of %v", ErrInvalid, clip(verb, 50), Verbs)
	}
	if _, ok := NextState(n.ProvisionState, verb); !ok {
		if n.Run != 0 && RuleOf(n.ProvisionState).Kind != Wait {
			return locked(n) // clients try again; a busy state is soon over
		}
		return fmt.Errorf("%w: the requested action %q can not be performed on node %q while it is in state %q",
			ErrState, verb, n.UUID, n.ProvisionState)
	}
	if slices.Contains(laterVerbs, verb) {
		return fmt.Errorf("%w: %q is not supported yet by this release", ErrInvalid, verb)
	}
	if n.Run != 0 && !interrupts(verb) {
		return locked(n)
	}
	return checkFlags(n, verb)
}

// interrupts says whether a verb is for a node that a run works on.
func interrupts(verb string) bool { return verb == "abort" || verb == "deleted" || verb == "undeploy" }

func checkFlags(n *store.Node, verb string) error {
	switch verb {
	case "rebuild", "deleted", "undeploy":
		if n.Protected {
			return fmt.Errorf("%w: node %s is protected and can not be undeployed or rebuilt", ErrForbidden, n.UUID)
		}
	}
	switch verb {
	case "active", "deploy", "rebuild", "provide", "clean":
		if n.Maintenance {
			return fmt.Errorf("%w: node %s is in maintenance (%s); %s needs it out of maintenance", ErrInvalid, n.UUID,
				orNone(n.MaintenanceReason), verb)
		}
	}
	switch verb {
	case "active", "deploy", "provide":
		if n.Retired {
			return fmt.Errorf("%w: node %s is retired, so it can not be made ready for an instance", ErrInvalid, n.UUID)
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}

// again is allowed once more, on the node as it is in the transaction that
// starts the run.
func again(verb string) func(*store.Tx, *store.Node) error {
	return func(_ *store.Tx, n *store.Node) error { return allowed(n, verb) }
}

func (c *Conductor) deploy(ctx context.Context, n *store.Node, r ProvisionRequest, verb string) error {
	if len(r.DeploySteps) > 0 {
		return fmt.Errorf("%w: deploy_steps are not supported yet by this release", ErrInvalid)
	}
	if r.DisableRamdisk {
		return fmt.Errorf("%w: disable_ramdisk does not go with %s", ErrInvalid, verb)
	}
	w := map[string]*Workflow{"deploy": &Deploy, "rebuild": &Rebuild}[verb]
	if c.iface(n, "deploy") == "fake" {
		w = map[string]*Workflow{"deploy": &FakeDeploy, "rebuild": &FakeRebuild}[verb]
	} else if err := c.checkBeforeDeploy(ctx, n); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	drive, err := c.newDrive(n, r, verb)
	if err != nil {
		return fmt.Errorf("%w: configdrive: %w", ErrInvalid, err)
	}
	_, err = c.startRun(ctx, n.UUID, w, store.LabelDoNodeDeploy, nil, func(tx *store.Tx, n *store.Node) error {
		if err := allowed(n, r.Target); err != nil {
			return err
		}
		return saveDrive(tx, n.UUID, drive, verb)
	})
	return err
}

// checkBeforeDeploy is what a deploy checks before it is accepted, the image
// included.
func (c *Conductor) checkBeforeDeploy(ctx context.Context, n *store.Node) error {
	ports, err := c.ports(n.UUID)
	if err != nil {
		return err
	}
	if err := c.checkDeploy(n, ports); err != nil {
		return err
	}
	return c.checkImage(ctx, n)
}

// undeploy ends whatever deploy runs and takes the instance off the node.
func (c *Conductor) undeploy(ctx context.Context, n *store.Node) error {
	_, err := c.startRun(ctx, n.UUID, &Undeploy, store.LabelDoNodeTearDown, nil, func(tx *store.Tx, n *store.Node) error {
		if err := allowed(n, "deleted"); err != nil {
			return err
		}
		return EndRun(tx, n, store.Aborted, "ended by a request to undeploy the node")
	})
	if err != nil {
		return err
	}
	c.interrupt(n.UUID)
	return nil
}

// manage verifies a new node, and brings others to manageable at once.
func (c *Conductor) manage(ctx context.Context, n *store.Node) error {
	if next, _ := NextState(n.ProvisionState, "manage"); next == store.Manageable {
		return c.moveTo(ctx, n, "manage", store.Manageable)
	}
	if _, err := c.config.BMC.Client(n); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	_, err := c.startRun(ctx, n.UUID, &Verify, store.LabelDoNodeVerify, nil, again("manage"))
	return err
}

// moveTo changes a node's state where nothing has to be done for it.
func (c *Conductor) moveTo(ctx context.Context, n *store.Node, verb string, to store.ProvisionState) error {
	var from store.ProvisionState
	err := c.db.Batch(func(tx *store.Tx) error {
		n, err := findNode(tx, n.UUID)
		if err != nil {
			return err
		}
		if err := allowed(n, verb); err != nil {
			return err
		}
		from = n.ProvisionState
		n.ProvisionState, n.TargetProvisionState, n.LastError = to, "", ""
		n.ProvisionUpdatedAt, n.UpdatedAt = time.Now(), time.Now()
		return store.Nodes.Put(tx, n)
	})
	if err != nil {
		return err
	}
	c.stateChanged(ctx, n.UUID, from, to)
	c.refresh(n.UUID)
	return nil
}

func (c *Conductor) provide(ctx context.Context, n *store.Node) error {
	_, err := c.startRun(ctx, n.UUID, &Clean, store.LabelProvisionAction, nil, again("provide"))
	return err
}

func (c *Conductor) clean(ctx context.Context, n *store.Node, r ProvisionRequest) error {
	if err := checkCleanSteps(r); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	args := map[string]any{"clean_steps": r.CleanSteps}
	_, err := c.startRun(ctx, n.UUID, &ManualClean, store.LabelDoNodeClean, args, again("clean"))
	return err
}

// maxCleanSteps bounds a client's list: agents remember 64 commands, and that
// memory is what tells after a crash which steps were sent.
const maxCleanSteps = 50

func checkCleanSteps(r ProvisionRequest) error {
	switch {
	case len(r.CleanSteps) == 0:
		return errors.New("clean_steps is required for the clean action")
	case len(r.CleanSteps) > maxCleanSteps:
		return fmt.Errorf("clean_steps has more than %d steps", maxCleanSteps)
	case r.DisableRamdisk:
		return errors.New("disable_ramdisk is not supported yet by this release")
	}
	for _, s := range r.CleanSteps {
		switch {
		case s.Step == "" || s.Interface == "":
			return errors.New("each clean step needs interface and step")
		case s.Interface != "deploy":
			return fmt.Errorf("clean steps of interface %q are not supported yet by this release; those of deploy are", clip(s.Interface, 50))
		}
	}
	return nil
}

// ports reads a node's ports.
func (c *Conductor) ports(node string) (ps []*store.Port, err error) {
	err = c.db.View(func(tx *store.Tx) error {
		ps = nil
		for p, err := range store.Ports.Where(tx, "node_uuid", node) {
			if err != nil {
				return err
			}
			ps = append(ps, p)
		}
		return nil
	})
	return ps, err
}
