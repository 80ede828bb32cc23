package conductor

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"bessemer/agent/fetch"
	"bessemer/bmc"
	"bessemer/pxe/images"
	"bessemer/store"
)

// Config is what a conductor needs. Zero values of the settings are the
// defaults.
type Config struct {
	DB     *store.DB
	BMC    *bmc.Pool // made with NewRecorder
	Types  bmc.Types
	Images ImageStore   // images.Store
	Policy fetch.Policy // for config drive URLs
	// BaseURL is how machines reach the provisioning listener:
	// "http://192.0.2.1:6386".
	BaseURL  string
	Hostname string // empty: this host's name
	// Dir is the data directory; ramdisk logs and short-lived files lie in it.
	Dir string
	Log zerolog.Logger

	Workers  int // steps that run at once, beside those that wait for something outside; 64
	MaxBoots int // nodes that are being started for the ramdisk at once; 128
	// MaxImageStreams is how many nodes write an image at once; 64.
	MaxImageStreams int
	Timeouts        Timeouts

	NoAutomatedClean bool // for nodes whose automated_clean is not set
	// CleanPriorities overrides the priorities of the agent's automated clean
	// steps; by default only erase_devices_metadata is run.
	CleanPriorities  map[string]int
	KeepPowerOnError bool // leave a node on whose deploy failed
	ForcePowerSync   bool // bring idle nodes back to their recorded power state
	PlainAgents      bool // accept agents that serve HTTP without TLS
	// CollectLogs is when a deploy's ramdisk logs are kept: always (the
	// default), on_failure, never.
	CollectLogs string
	LogsPerNode int // log archives kept per node; 10

	// Crash, if set, is called at the points between which the journal must
	// hold together; tests die there. where is "workflow/step"; point is
	// "before" (the step is loaded, nothing is done), "done" (its effect has
	// happened), "saved" (what came of it is in the journal), "ended" (the
	// run has ended with it), or "resume" (at a start, before the run is put
	// in line).
	Crash func(where, point string)

	// AgentTransport, if set, is put around the HTTP transport to each agent;
	// tests let calls fail there.
	AgentTransport func(http.RoundTripper) http.RoundTripper
}

// Timeouts are the conductor's times. Zero values are the defaults.
type Timeouts struct {
	DeployCallback time.Duration // agent's next sign during a deploy; 30 min
	CleanCallback  time.Duration // the same during cleaning; 30 min
	Boot           time.Duration // sign of life after a start, before it is tried again; 10 min
	Claim          time.Duration // first heartbeat after the token was given; 1 min
	Heartbeat      time.Duration // an agent's longest silence; 5 min
	AgentCommand   time.Duration // an agent to take a short command; 2 min
	Look           time.Duration // between two calls to an agent that may have gone; 2 s
	AgentCall      time.Duration // one HTTP exchange with an agent; 60 s
	Step           time.Duration // one call of a step; 20 min
	PowerSync      time.Duration // between two reads of a node's power state; 2 min, negative for never
	SoftPower      time.Duration // an operating system to shut down; 10 min
	Request        time.Duration // what a client's request may wait for; 20 s
	StoreRetry     time.Duration // before a save that failed is tried again; 5 s
	Backoff        time.Duration // before the second try of a step, doubled each time; 2 s
	BootRetries    int           // starts after the first that gave no sign of life; 2, negative for none
}

// An ImageStore finds images. images.Store is one.
type ImageStore interface {
	// Resolve finds the image of an instance_info, with its checksum.
	Resolve(ctx context.Context, instanceInfo map[string]any) (images.Resolved, error)
	// OpenFile opens an image that the appliance keeps.
	OpenFile(uuid string) (*os.File, error)
}

func (c *Config) setDefaults() {
	if c.Hostname == "" {
		if c.Hostname, _ = os.Hostname(); c.Hostname == "" {
			c.Hostname = "bessemer"
		}
	}
	for n, def := range map[*int]int{&c.Workers: 64, &c.MaxBoots: 128, &c.MaxImageStreams: 64} {
		if *n <= 0 {
			*n = def
		}
	}
	if c.CleanPriorities == nil {
		c.CleanPriorities = map[string]int{"erase_devices": 0, "erase_devices_express": 0, "erase_devices_metadata": 99}
	}
	c.CollectLogs = cmp.Or(c.CollectLogs, "always")
	c.LogsPerNode = cmp.Or(c.LogsPerNode, 10)
	if c.Crash == nil {
		c.Crash = func(string, string) {}
	}
	c.Timeouts.setDefaults()
}

func (t *Timeouts) setDefaults() {
	for d, def := range map[*time.Duration]time.Duration{
		&t.DeployCallback: 30 * time.Minute, &t.CleanCallback: 30 * time.Minute, &t.Boot: 10 * time.Minute,
		&t.Heartbeat: 5 * time.Minute, &t.Claim: time.Minute, &t.AgentCommand: 2 * time.Minute, &t.AgentCall: time.Minute, &t.Look: 2 * time.Second,
		&t.Step: 20 * time.Minute, &t.PowerSync: 2 * time.Minute, &t.SoftPower: 10 * time.Minute,
		&t.Request: 20 * time.Second, &t.StoreRetry: 5 * time.Second, &t.Backoff: 2 * time.Second,
	} {
		*d = cmp.Or(*d, def)
	}
	t.BootRetries = cmp.Or(t.BootRetries, 2)
}
