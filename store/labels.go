package store

// The catalogue of labels: what an arrow says, in seed 000's words where it
// has them. Whoever records a message takes its label from here, so that
// traces can be compared, counted and matched; what differs from one message
// to the next belongs in Message.Detail.
//
// The first part follows a direct deploy from its first message to its last.
const (
	LabelSetInstanceInfo   = "Set instance_info"                      // Client -> API
	LabelValidate          = "Validate power and deploy interfaces"   // Client -> API; Conductor -> Conductor
	LabelPlugVIFs          = "Plug VIFs to the node"                  // Client -> API
	LabelSetProvisionState = "Set provision_state"                    // Client -> API
	LabelDoNodeDeploy      = "do_node_deploy()"                       // API -> Conductor
	LabelStoreConfigDrive  = "Store configdrive"                      // Conductor -> HTTPStore
	LabelPowerOff          = "POWER OFF"                              // Conductor -> BMC
	LabelAttachNetwork     = "Attach provisioning network to port(s)" // Conductor -> DHCP
	LabelUpdateDHCP        = "Update DHCP boot options"               // Conductor -> DHCP, twice
	LabelPreparePXE        = "Prepare PXE environment for deployment" // Conductor -> Conductor
	LabelBootDevicePXE     = "Set boot device: pxe"                   // Conductor -> BMC
	LabelCacheImages       = "Cache deploy and instance kernel and ramdisk"
	LabelReboot            = "REBOOT"                                 // Conductor -> BMC
	LabelDHCPRequest       = "DHCP request"                           // Node -> DHCP
	LabelNextServer        = "next-server = Conductor"                // DHCP -> Node
	LabelRunsAgent         = "Runs agent ramdisk"                     // Node -> Node
	LabelLookup            = "lookup()"                               // Node -> API
	LabelPassUUID          = "Pass UUID"                              // API -> Node
	LabelHeartbeat         = "Heartbeat"                              // Node -> API; API -> Conductor
	LabelContinueDeploy    = "Continue deploy: pass image, disk info" // Conductor -> Node
	LabelDownloadImage     = "Download image"                         // Node -> HTTPStore
	LabelIsDeployDone      = "Is deploy done?"                        // Conductor -> Node
	LabelStillWorking      = "Still working..."                       // Node -> Conductor
	LabelDeployDone        = "Deploy is done"                         // Node -> Conductor
	LabelInstallBootLoader = "Install boot loader"                    // Conductor -> Node
	LabelPrepareInstance   = "Prepare PXE environment for instance image"
	LabelBootDeviceDisk    = "Set boot device: disk"            // Conductor -> BMC
	LabelKeepBootDevice    = "Boot from the agent's boot entry" // Conductor -> Conductor, instead of the former: Detail why
	LabelCollectLogs       = "Collect ramdisk logs"             // Conductor -> Node
	LabelDetachNetwork     = "Detach provisioning network from port(s)"
	LabelBindTenantPort    = "Bind tenant port"    // Conductor -> DHCP
	LabelPowerOn           = "POWER ON"            // Conductor -> BMC
	LabelMarkActive        = "Mark node as ACTIVE" // Conductor -> Conductor
)

// Labels beyond seed 000: its arrows leave out what goes before and between
// them, and the other workflows.
const (
	// Controller.
	LabelPowerState      = "Read power state"       // Conductor -> BMC
	LabelSoftPowerOff    = "SOFT POWER OFF"         // Conductor -> BMC
	LabelSoftReboot      = "SOFT REBOOT"            // Conductor -> BMC
	LabelReadBootDevice  = "Read boot device"       // Conductor -> BMC
	LabelListBootDevices = "List boot devices"      // Conductor -> BMC
	LabelControllerNote  = "Note on controller"     // Conductor -> Conductor: Detail of, note
	LabelBootDevice      = "Set boot device"        // Conductor -> BMC; any other device
	LabelBootMode        = "Set boot mode"          // Conductor -> BMC
	LabelReadBootMode    = "Read boot mode"         // Conductor -> BMC
	LabelVerifyBMC       = "Verify BMC credentials" // Conductor -> BMC
	LabelOpenSession     = "Open session"           // Conductor -> BMC
	LabelCloseSession    = "Close session"          // Conductor -> BMC
	LabelReadInventory   = "Read inventory"         // Conductor -> BMC
	LabelReadSensors     = "Read sensors"           // Conductor -> BMC
	LabelInsertMedia     = "Insert virtual media"   // Conductor -> BMC
	LabelEjectMedia      = "Eject virtual media"    // Conductor -> BMC
	LabelCheckController = "Check controller"       // Conductor -> BMC

	// Network boot.
	LabelDHCPDiscover   = "DHCP discover"        // Node -> DHCP
	LabelDHCPOffer      = "DHCP offer"           // DHCP -> Node
	LabelDHCPAck        = "DHCP acknowledge"     // DHCP -> Node: an address, nothing to boot
	LabelDHCPRefused    = "DHCP NAK"             // DHCP -> Node
	LabelDHCPRelease    = "DHCP release"         // Node -> DHCP
	LabelDHCPDecline    = "DHCP decline"         // Node -> DHCP
	LabelFetchBootfile  = "Fetch boot program"   // Node -> TFTP/HTTPd
	LabelFetchScript    = "Fetch boot script"    // Node -> TFTP/HTTPd
	LabelFetchKernel    = "Fetch kernel"         // Node -> TFTP/HTTPd
	LabelFetchRamdisk   = "Fetch ramdisk"        // Node -> TFTP/HTTPd
	LabelFetchFile      = "Fetch file"           // Node -> TFTP/HTTPd
	LabelBootLocalDisk  = "Boot from disk"       // TFTP/HTTPd -> Node
	LabelRetryBoot      = "Ask again later"      // TFTP/HTTPd -> Node
	LabelDownloadDrive  = "Download configdrive" // Node -> HTTPStore
	LabelDownloadChecks = "Download checksums"   // Conductor -> HTTPStore

	// Agent.
	LabelGetDeploySteps = "Get deploy steps"                     // Conductor -> Node
	LabelGetPartitions  = "Get partition UUIDs"                  // Conductor -> Node
	LabelGetCleanSteps  = "Get clean steps"                      // Conductor -> Node
	LabelCommandStatus  = "Read command status"                  // Conductor -> Node
	LabelExecuteStep    = "Execute step"                         // Conductor -> Node
	LabelEraseDisks     = "Erase disks"                          // Conductor -> Node
	LabelIsCleanDone    = "Is cleaning done?"                    // Conductor -> Node
	LabelCleanDone      = "Cleaning is done"                     // Node -> Conductor
	LabelWriteProgress  = "Writing image"                        // Node -> Conductor
	LabelSyncDisks      = "Sync disks"                           // Conductor -> Node
	LabelCheckAgent     = "Does the agent live?"                 // Conductor -> Node
	LabelAgentGone      = "Agent has gone: start the node again" // Conductor -> Conductor: Detail why, starts
	LabelShutDownAgent  = "Power off from inside"                // Conductor -> Node

	// Other verbs and bookkeeping.
	LabelDoNodeClean      = "do_node_clean()"           // API -> Conductor
	LabelDoNodeTearDown   = "do_node_tear_down()"       // API -> Conductor
	LabelDoNodeVerify     = "do_node_verify()"          // API -> Conductor
	LabelProvisionAction  = "do_provisioning_action()"  // API -> Conductor
	LabelChangePower      = "change_node_power_state()" // API -> Conductor
	LabelSetPower         = "Set power state"           // Client -> API
	LabelAttachCleaning   = "Attach cleaning network to port(s)"
	LabelDetachCleaning   = "Detach cleaning network from port(s)"
	LabelUnbindTenantPort = "Unbind tenant port"       // Conductor -> DHCP
	LabelRemoveDrive      = "Remove configdrive"       // Conductor -> HTTPStore
	LabelResolveImage     = "Resolve image"            // Conductor -> HTTPStore
	LabelCleanUpPXE       = "Clean up PXE environment" // Conductor -> Conductor
	LabelMarkAvailable    = "Mark node as AVAILABLE"   // Conductor -> Conductor
	LabelMarkManageable   = "Mark node as MANAGEABLE"  // Conductor -> Conductor
	LabelProvisionState   = "Provision state"          // State: Detail from, to
	LabelPowerChanged     = "Power state"              // State: Detail from, to
	LabelRestarted        = "Appliance restarted"      // Divider
	LabelStepBegun        = "Step begun"               // StepKind
	LabelStepEnded        = "Step ended"               // StepKind
)
