package conductor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"bessemer/bmc"
	"bessemer/pxe"
	"bessemer/store"
)

// A Conductor runs workflows.
type Conductor struct {
	config    Config
	db        *store.DB
	rec       store.Recorder // for agents
	log       zerolog.Logger
	workflows map[string]*Workflow
	queue     *queue
	index     *index
	agents    *agents
	found     *discovery
	looks     *looks
	boots     *admission // nodes that are being started for the ramdisk
	streams   *admission // nodes that write an image
	loaded    error      // what went wrong when the index was first read
	born      time.Time
	process   string // tells our locks from those that a killed process left

	mu      sync.Mutex
	timers  map[string]*time.Timer        // wake-ups, by node
	cancels map[string]context.CancelFunc // of the step that runs now, by node
	lives   map[string]*liveStep          // by node
	working map[string]bool               // nodes whose agents have something to do
}

var (
	_ API        = (*Conductor)(nil)
	_ pxe.Booter = (*Conductor)(nil)
)

// New returns a conductor. It answers requests and boot servers at once, but
// runs nothing before Run is called.
func New(c Config) *Conductor {
	c.setDefaults()
	cond := &Conductor{
		config: c, db: c.DB, rec: NewRecorder(c.DB, c.Log), log: c.Log,
		workflows: map[string]*Workflow{},
		queue:     newQueue(),
		index:     newIndex(),
		agents:    newAgents(),
		found:     newDiscovery(),
		looks:     newLooks(),
		timers:    map[string]*time.Timer{},
		cancels:   map[string]context.CancelFunc{},
		lives:     map[string]*liveStep{},
		working:   map[string]bool{},
		born:      time.Now(), process: newToken()[:12],
	}
	cond.agents.around = c.AgentTransport
	cond.boots = newAdmission("start", c.MaxBoots, cond.queue.add)
	cond.streams = newAdmission("write its image", c.MaxImageStreams, cond.queue.add)
	for _, w := range allWorkflows {
		cond.workflows[w.Name] = w
	}
	if cond.loaded = cond.fence(); cond.loaded == nil {
		cond.loaded = cond.index.load(c.DB)
	}
	return cond
}

// allWorkflows lists the workflows of this release.
var allWorkflows = []*Workflow{
	&Verify, &Deploy, &Rebuild, &FakeDeploy, &FakeRebuild, &Undeploy, &Clean, &ManualClean,
	&PowerOn, &PowerOff, &PowerCycle, &SoftPowerOff, &SoftPowerCycle,
}

// Run goes on with the runs that the last process left, and runs steps, wake-
// ups and power sync until ctx ends. It returns when all its goroutines have.
func (c *Conductor) Run(ctx context.Context) error {
	if c.loaded != nil {
		return fmt.Errorf("conductor: read nodes and ports: %w", c.loaded)
	}
	if err := c.clearTemp(); err != nil {
		return err
	}
	if err := c.resume(ctx); err != nil {
		return fmt.Errorf("conductor: resume: %w", err)
	}
	c.looks.open(ctx)
	defer c.looks.close()
	defer c.stopTimers()
	defer c.boots.stop()
	defer c.streams.stop()
	var wg sync.WaitGroup
	wg.Go(func() { c.syncPower(ctx) })
	wg.Go(func() { c.saveDiscovered(ctx) })
	c.queue.run(ctx, c.config.Workers, c.advance)
	wg.Wait()
	c.agents.close()
	return nil
}

// Types returns the enabled hardware types.
func (c *Conductor) Types() bmc.Types { return c.config.Types }

// Hostname returns the conductor's name, which is the holder of reservations.
func (c *Conductor) Hostname() string { return c.config.Hostname }

// NodeChanged tells that a client has changed or deleted a node or its ports.
func (c *Conductor) NodeChanged(node string) {
	if gone := c.refresh(node); gone {
		c.config.BMC.Forget(node)
		c.agents.forget(node)
		c.looks.forget(node)
		c.interrupt(node) // its run has ended with it
		c.forgetLive(node)
		return
	}
	if n, ok := c.index.get(node); ok {
		c.forgetDiscovered(n.macs)
	}
}

// refresh brings the boot index up to date with the store.
func (c *Conductor) refresh(node string) (gone bool) {
	gone, err := c.index.reload(c.db, node)
	if err != nil {
		c.log.Error().Err(err).Str("node", node).Msg("read node for boot answers")
		return false
	}
	n, _ := c.index.get(node)
	c.places(node, c.workflows[n.workflow], n.step)
	return gone
}

// follow is refresh for who has just saved a node with its run, and knows both.
func (c *Conductor) follow(n *store.Node, r *store.Run, rev uint64) {
	if n.Run != 0 && n.Run != r.ID || !c.index.follow(n, r, rev) {
		c.refresh(n.UUID)
		return
	}
	step := ""
	if n.Run != 0 {
		step = r.Step
	}
	c.places(n.UUID, c.workflows[r.Workflow], step)
}

// temp returns the directory for short-lived files, which may hold secrets.
func (c *Conductor) temp() string { return filepath.Join(c.config.Dir, "tmp") }

// clearTemp removes what a killed process left behind.
func (c *Conductor) clearTemp() error {
	if err := os.RemoveAll(c.temp()); err != nil {
		return fmt.Errorf("clear short-lived files: %w", err)
	}
	return nil
}
