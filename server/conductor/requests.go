package conductor

import (
	"context"
	"errors"
	"time"

	"bessemer/agent/wire"
	"bessemer/bmc"
	"bessemer/store"
)

// Kinds of refusal; server/api turns each into one HTTP status. A refusal
// wraps one of these and says in words what a client did wrong; any other
// error is a fault of ours.
var (
	ErrInvalid   = errors.New("invalid request")   // 400
	ErrForbidden = errors.New("forbidden")         // 403: protected
	ErrNotFound  = errors.New("not found")         // 404
	ErrState     = errors.New("not in this state") // 400: InvalidStateRequested
	ErrLocked    = errors.New("node is locked")    // 409
	ErrBusy      = errors.New("no free worker")    // 503
	ErrBadAgent  = errors.New("agent refused")     // 401 on lookup/heartbeat
)

// A ProvisionRequest asks to change a node's provision state.
type ProvisionRequest struct {
	Target         string // Ironic's verb: active, deploy, rebuild, deleted, undeploy, manage, provide, clean, abort, ...
	ConfigDrive    any    // nil, string (URL, or base64 of gzip of an image), or map[string]any (meta_data, user_data, network_data, vendor_data)
	CleanSteps     []StepRequest
	DeploySteps    []StepRequest
	DisableRamdisk bool
	Rebuild        bool
}

// A StepRequest is a step that a client names.
type StepRequest struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args"`
	Priority  *int           `json:"priority"`
}

// A Validation says whether one of a node's interfaces could do its work.
type Validation struct {
	Result *bool  `json:"result"` // nil: the interface is not used
	Reason string `json:"reason,omitempty"`
}

// An Explanation is what `node explain` shows.
type Explanation struct {
	State      store.ProvisionState `json:"state"`
	Since      time.Time            `json:"since"`
	Doing      string               `json:"doing"`       // what is going on, in a sentence
	WaitingFor string               `json:"waiting_for"` // "" when not waiting
	Deadline   time.Time            `json:"deadline,omitzero"`
	LastError  string               `json:"last_error,omitempty"`
	Next       []string             `json:"next"` // what to do, commands included
}

// API is what server/api uses of the conductor. [Conductor] implements it; it
// is written down here so that both sides are held to it by the compiler.
type API interface {
	// Provision checks a request against the state table and starts the run.
	Provision(ctx context.Context, node string, r ProvisionRequest) error
	// SetPower starts a power change: store.PowerOn, PowerOff, Rebooting,
	// SoftPowerOff, SoftReboot. timeout 0 is the default.
	SetPower(ctx context.Context, node string, target store.PowerState, timeout time.Duration) error
	// BootDevice reads the boot device from the controller.
	BootDevice(ctx context.Context, node string) (bmc.Boot, error)
	SetBootDevice(ctx context.Context, node string, b bmc.Boot) error
	SupportedBootDevices(ctx context.Context, node string) ([]bmc.BootDevice, error)
	// Validate checks each interface: "power", "management", "boot", "deploy",
	// "network", "console", "inspect", "bios", "raid", "rescue", "storage".
	Validate(ctx context.Context, node string) (map[string]Validation, error)

	AttachVIF(ctx context.Context, node string, vif map[string]any) error // id, port_uuid
	DetachVIF(ctx context.Context, node, vif string) error
	VIFs(ctx context.Context, node string) ([]string, error)

	// Lookup finds the node that an agent runs on, by MACs or UUID. peer is
	// the address it asks from. The token is given once a boot, and only
	// when wantToken (microversion 1.62).
	Lookup(ctx context.Context, macs []string, uuid, peer string, wantToken bool) (wire.LookupResponse, error)
	// Heartbeat takes an agent's heartbeat for a node.
	Heartbeat(ctx context.Context, node, peer string, h wire.Heartbeat) error

	// Types are the enabled hardware types.
	Types() bmc.Types
	// CheckDriver reports every fault of a node's driver and interfaces.
	CheckDriver(n *store.Node) error
	// NodeChanged tells that a client has changed or deleted a node or its
	// ports: cached controllers, boot answers and reservations follow.
	NodeChanged(node string)
	Explain(ctx context.Context, node string) (Explanation, error)
	// RunningStep returns the step that runs on a node now, and its run. It
	// knows of it as soon as it begins; the stored run when it is saved next.
	RunningStep(node string) (run uint64, s store.RunStep, ok bool)
	// WaitingFor says what a node that stands in line waits for, and where it
	// stands now; or what has not answered for long. It is "" for others: what
	// their runs say, from when they were looked at last, is true.
	WaitingFor(node string) string
	Hostname() string
}
