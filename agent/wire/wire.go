// Package wire is the JSON that the ramdisk agent and the appliance exchange.
// It is Ironic-Python-Agent's protocol, plus a few fields that other ends
// ignore; those are marked "ours".
package wire

// LookupPath, HeartbeatPath and the rest are paths on the provisioning
// listener.
const (
	LookupPath    = "/v1/lookup"
	HeartbeatPath = "/v1/heartbeat/"
	// APIVersion is the microversion header and the version our agent sends.
	VersionHeader = "X-OpenStack-Ironic-API-Version"
)

// LookupResponse answers GET /v1/lookup?addresses=&node_uuid=.
type LookupResponse struct {
	Node   LookupNode   `json:"node"`
	Config LookupConfig `json:"config"`
}

// LookupNode is the part of a node that a ramdisk may see.
type LookupNode struct {
	UUID               string         `json:"uuid"`
	Properties         map[string]any `json:"properties"`
	InstanceInfo       map[string]any `json:"instance_info"`
	DriverInternalInfo map[string]any `json:"driver_internal_info"`
	Links              []Link         `json:"links"`
}

// Link is a hyperlink as Ironic's API gives them.
type Link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
}

// LookupConfig is how the agent shall behave.
type LookupConfig struct {
	Metrics                     map[string]any `json:"metrics"`
	MetricsStatsd               map[string]any `json:"metrics_statsd"`
	HeartbeatTimeout            int            `json:"heartbeat_timeout"` // seconds
	AgentToken                  string         `json:"agent_token"`       // ****** after the first lookup
	AgentTokenRequired          bool           `json:"agent_token_required"`
	AgentMD5ChecksumEnable      bool           `json:"agent_md5_checksum_enable"`
	DisableDeepImageInspection  bool           `json:"disable_deep_image_inspection"`
	PermittedImageFormats       []string       `json:"permitted_image_formats"`
	EnableBIOSBootloaderInstall bool           `json:"enable_bios_bootloader_install"`
}

// Heartbeat is the body of POST /v1/heartbeat/{uuid}; the answer is 202.
type Heartbeat struct {
	CallbackURL        string `json:"callback_url"`
	AgentToken         string `json:"agent_token,omitempty"`
	AgentVersion       string `json:"agent_version,omitempty"`
	AgentVerifyCA      string `json:"agent_verify_ca,omitempty"` // PEM
	AgentStatus        string `json:"agent_status,omitempty"`
	AgentStatusMessage string `json:"agent_status_message,omitempty"`
}

// CommandRequest is the body of POST /v1/commands/?wait=&agent_token=.
type CommandRequest struct {
	Name   string         `json:"name"` // "deploy.get_deploy_steps"
	Params map[string]any `json:"params"`
}

// CommandStatus is how a command stands.
type CommandStatus string

// Command states.
const (
	Running         CommandStatus = "RUNNING"
	Succeeded       CommandStatus = "SUCCEEDED"
	Failed          CommandStatus = "FAILED"
	VersionMismatch CommandStatus = "CLEAN_VERSION_MISMATCH"
)

// Command is the state of a command, as the agent gives it.
type Command struct {
	ID       string         `json:"id"`
	Name     string         `json:"command_name"` // without the extension: "get_deploy_steps"
	Status   CommandStatus  `json:"command_status"`
	Error    *CommandError  `json:"command_error"`
	Result   map[string]any `json:"command_result"`
	Progress *Progress      `json:"command_progress,omitempty"` // ours
}

// Commands answers GET /v1/commands/, oldest first.
type Commands struct {
	Commands []Command `json:"commands"`
}

// CommandError is why a command failed.
type CommandError struct {
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details string `json:"details"`
}

// Progress is how far a running command has come; sizes in bytes of the disk
// image (not of the compressed file), Rate in bytes a second, ETA in seconds.
type Progress struct {
	What  string  `json:"what"`
	Done  int64   `json:"done"`
	Total int64   `json:"total,omitempty"`
	Rate  float64 `json:"rate,omitempty"`
	ETA   float64 `json:"eta,omitempty"`
}

// Step is one deploy or clean step, as offered by get_*_steps and as given to
// execute_*_step.
type Step struct {
	Interface       string         `json:"interface"`
	Step            string         `json:"step"`
	Priority        int            `json:"priority"`
	Args            map[string]any `json:"args,omitempty"`
	RebootRequested bool           `json:"reboot_requested"`
	Abortable       bool           `json:"abortable,omitempty"`
	ArgsInfo        map[string]any `json:"argsinfo,omitempty"`
}

// ImageInfo is the image_info argument of write_image and standby.prepare_image.
type ImageInfo struct {
	ID              string   `json:"id"`
	URLs            []string `json:"urls"`
	DiskFormat      string   `json:"disk_format"` // a claim; the content decides
	ContainerFormat string   `json:"container_format"`
	StreamRawImages bool     `json:"stream_raw_images"`
	Checksum        string   `json:"checksum,omitempty"`     // hex, or a URL
	OSHashAlgo      string   `json:"os_hash_algo,omitempty"` // sha256 or sha512
	OSHashValue     string   `json:"os_hash_value,omitempty"`
	NodeUUID        string   `json:"node_uuid,omitempty"`
	ConfigDrive     string   `json:"configdrive,omitempty"` // URL, or base64 of gzip of the ISO
}
