package store

import (
	"maps"
	"slices"
	"time"
)

// A Node is one physical machine under management. Field names and meanings
// are Ironic's.
type Node struct {
	UUID         string `json:"uuid"`
	Name         string `json:"name,omitempty"`
	InstanceUUID string `json:"instance_uuid,omitempty"`
	InstanceName string `json:"instance_name,omitempty"`
	ChassisUUID  string `json:"chassis_uuid,omitempty"`

	Driver             string            `json:"driver"`
	Interfaces         map[string]string `json:"interfaces,omitempty"` // "boot": "ipxe", "deploy": "direct", ...
	DriverInfo         map[string]any    `json:"driver_info,omitempty"`
	DriverInternalInfo map[string]any    `json:"driver_internal_info,omitempty"`
	InstanceInfo       map[string]any    `json:"instance_info,omitempty"`
	Properties         map[string]any    `json:"properties,omitempty"`
	Extra              map[string]any    `json:"extra,omitempty"`
	NetworkData        map[string]any    `json:"network_data,omitempty"`

	PowerState           PowerState     `json:"power_state,omitempty"`        // "" is unknown
	TargetPowerState     PowerState     `json:"target_power_state,omitempty"` // "" is none
	ProvisionState       ProvisionState `json:"provision_state"`
	TargetProvisionState ProvisionState `json:"target_provision_state,omitempty"` // "" is none
	ProvisionUpdatedAt   time.Time      `json:"provision_updated_at,omitzero"`

	LastError         string       `json:"last_error,omitempty"`
	Maintenance       bool         `json:"maintenance,omitempty"`
	MaintenanceReason string       `json:"maintenance_reason,omitempty"`
	Fault             string       `json:"fault,omitempty"`
	Reservation       *Reservation `json:"reservation,omitempty"`
	Run               uint64       `json:"run,omitempty"` // the unfinished run, 0 for none

	ResourceClass  string   `json:"resource_class,omitempty"`
	ConductorGroup string   `json:"conductor_group,omitempty"`
	Owner          string   `json:"owner,omitempty"`
	Lessee         string   `json:"lessee,omitempty"`
	Shard          string   `json:"shard,omitempty"`
	Description    string   `json:"description,omitempty"`
	AllocationUUID string   `json:"allocation_uuid,omitempty"`
	Traits         []string `json:"traits,omitempty"`

	AutomatedClean  *bool  `json:"automated_clean,omitempty"`
	Protected       bool   `json:"protected,omitempty"`
	ProtectedReason string `json:"protected_reason,omitempty"`
	Retired         bool   `json:"retired,omitempty"`
	RetiredReason   string `json:"retired_reason,omitempty"`
	ConsoleEnabled  bool   `json:"console_enabled,omitempty"`

	BootMode         string         `json:"boot_mode,omitempty"` // uefi, bios or "" for unknown
	SecureBoot       *bool          `json:"secure_boot,omitempty"`
	RAIDConfig       map[string]any `json:"raid_config,omitempty"`
	TargetRAIDConfig map[string]any `json:"target_raid_config,omitempty"`
	CleanStep        *IronicStep    `json:"clean_step,omitempty"`
	DeployStep       *IronicStep    `json:"deploy_step,omitempty"`

	Agent Agent `json:"agent,omitzero"`

	InspectionStartedAt  time.Time `json:"inspection_started_at,omitzero"`
	InspectionFinishedAt time.Time `json:"inspection_finished_at,omitzero"`
	CreatedAt            time.Time `json:"created_at"`
	UpdatedAt            time.Time `json:"updated_at,omitzero"`
}

// A Reservation is the lock that a run or a request holds on a node.
type Reservation struct {
	Holder  string    `json:"holder"` // the conductor's host name, as Ironic shows it
	Why     string    `json:"why"`    // "deploy", "power on", ...
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires,omitzero"`  // zero: as long as the node's run lasts
	Process string    `json:"process,omitempty"` // which start of the appliance took it
}

// Agent is what is known of the ramdisk agent that runs on a node now. It is
// cleared whenever the node is powered off or rebooted by us.
type Agent struct {
	URL           string    `json:"url,omitempty"`
	Token         string    `json:"token,omitempty"`   // given at the first lookup of a boot; secret
	CA            string    `json:"ca,omitempty"`      // PEM certificate that the agent's TLS server shows
	Version       string    `json:"version,omitempty"` //
	Address       string    `json:"address,omitempty"` // the peer address of the first lookup
	Since         time.Time `json:"since,omitzero"`    // when it was given its token
	LastHeartbeat time.Time `json:"last_heartbeat,omitzero"`
}

// An IronicStep is a step as Ironic's clients see it in a node's deploy_step
// or clean_step.
type IronicStep struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Priority  int            `json:"priority"`
	Args      map[string]any `json:"argsinfo"`
}

// PowerState is a node's power state in Ironic's words.
type PowerState string

// Power states and the targets that a power request may name.
const (
	PowerOn      PowerState = "power on"
	PowerOff     PowerState = "power off"
	PowerError   PowerState = "error"
	Rebooting    PowerState = "rebooting"
	SoftPowerOff PowerState = "soft power off"
	SoftReboot   PowerState = "soft rebooting"
)

// ProvisionState is a node's place in Ironic's provision state machine.
type ProvisionState string

// The provision states, in Ironic's words.
const (
	Enroll         ProvisionState = "enroll"
	Verifying      ProvisionState = "verifying"
	Manageable     ProvisionState = "manageable"
	Inspecting     ProvisionState = "inspecting"
	InspectWait    ProvisionState = "inspect wait"
	InspectFailed  ProvisionState = "inspect failed"
	Cleaning       ProvisionState = "cleaning"
	CleanWait      ProvisionState = "clean wait"
	CleanHold      ProvisionState = "clean hold"
	CleanFailed    ProvisionState = "clean failed"
	Available      ProvisionState = "available"
	Deploying      ProvisionState = "deploying"
	DeployWait     ProvisionState = "wait call-back"
	DeployHold     ProvisionState = "deploy hold"
	DeployFailed   ProvisionState = "deploy failed"
	Active         ProvisionState = "active"
	Servicing      ProvisionState = "servicing"
	ServiceWait    ProvisionState = "service wait"
	ServiceHold    ProvisionState = "service hold"
	ServiceFailed  ProvisionState = "service failed"
	Rescuing       ProvisionState = "rescuing"
	RescueWait     ProvisionState = "rescue wait"
	Rescue         ProvisionState = "rescue"
	RescueFailed   ProvisionState = "rescue failed"
	Unrescuing     ProvisionState = "unrescuing"
	UnrescueFailed ProvisionState = "unrescue failed"
	Adopting       ProvisionState = "adopting"
	AdoptFailed    ProvisionState = "adopt failed"
	Deleting       ProvisionState = "deleting"
	Error          ProvisionState = "error"
)

// Nodes is the table of nodes, by UUID.
var Nodes = NewTable("nodes", func(n *Node) string { return n.UUID },
	Unique("name", func(n *Node) []string { return some(n.Name) }),
	Unique("instance_uuid", func(n *Node) []string { return some(n.InstanceUUID) }),
	Index("provision_state", func(n *Node) []string { return some(string(n.ProvisionState)) }),
).cached()

// Clone returns a copy of n whose maps and slices may be changed freely at
// their first level.
func (n *Node) Clone() *Node {
	c := *n
	for _, m := range []*map[string]any{
		&c.DriverInfo, &c.DriverInternalInfo, &c.InstanceInfo, &c.Properties,
		&c.Extra, &c.NetworkData, &c.RAIDConfig, &c.TargetRAIDConfig,
	} {
		*m = maps.Clone(*m)
	}
	c.Interfaces = maps.Clone(n.Interfaces)
	c.Traits = slices.Clone(n.Traits)
	return &c
}

// FindNode returns the node whose UUID or name is ident.
func FindNode(tx *Tx, ident string) (*Node, error) {
	n, err := Nodes.Get(tx, ident)
	if err == nil {
		return n, nil
	}
	return Nodes.By(tx, "name", ident)
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
