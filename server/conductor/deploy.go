package conductor

import (
	"context"

	"bessemer/store"
)

// Deploy writes an image to a node's disk and boots it. It is Ironic's direct
// deploy, in the order of its sequence diagram; the arrows that a step draws
// are named beside it.
var Deploy = Workflow{
	Name:    "deploy",
	Running: store.Deploying, Waiting: store.DeployWait, Target: store.Active,
	Done: always(store.Active), Failed: store.DeployFailed,
	Steps:     deploySteps,
	OnFailure: deployFailed,
}

// Rebuild is Deploy on a node that has an instance already.
var Rebuild = Workflow{
	Name:    "rebuild",
	Running: store.Deploying, Waiting: store.DeployWait, Target: store.Active,
	Done: always(store.Active), Failed: store.DeployFailed,
	Steps:     deploySteps,
	OnFailure: deployFailed,
}

var deploySteps = []Step{
	{Name: "validate", Do: validate, Ironic: deployStep("deploy", 100), Tries: 3},                                              // Conductor -> Conductor
	{Name: "store-configdrive", Do: storeConfigDrive},                                                                          // Conductor -> HTTPStore
	{Name: "power-off", Do: powerOff, Tries: 3},                                                                                // Conductor -> BMC
	{Name: "attach-provisioning-net", Do: attachProvisioning},                                                                  // Conductor -> DHCP
	{Name: "set-ramdisk-dhcp", Do: bootRamdisk},                                                                                // Conductor -> DHCP
	{Name: "set-boot-device-pxe", Do: setBootPXE, Tries: 3},                                                                    // Conductor -> BMC
	{Name: "cache-images", Do: cacheImages, Tries: 3},                                                                          // Conductor -> HTTPStore
	{Name: "reboot", Do: reboot, Tries: 3},                                                                                     // Conductor -> BMC
	{Name: "await-agent", Do: awaitAgent, Within: deployCallback},                                                              // Node -> DHCP, TFTP/HTTPd; Node -> API: lookup, heartbeat
	{Name: "get-deploy-steps", Do: getDeploySteps, Within: agentCommand},                                                       // Conductor -> Node
	{Name: "write-image", Do: writeImage, Ironic: deployStep("write_image", 80), Within: deployCallback},                       // Conductor -> Node; Node -> HTTPStore
	{Name: "install-bootloader", Do: installBootLoader, Ironic: deployStep("prepare_instance_boot", 60), Within: agentCommand}, // Conductor -> Node
	{Name: "set-instance-dhcp", Do: bootDisk},                                                                                  // Conductor -> DHCP
	{Name: "set-boot-device-disk", Do: setBootDisk, Tries: 3},                                                                  // Conductor -> BMC
	{Name: "collect-logs", Do: collectLogs, Ironic: deployStep("tear_down_agent", 40)},                                         // Conductor -> Node
	{Name: "sync-disks", Do: syncDisks, Within: agentCommand},                                                                  // Conductor -> Node
	{Name: "power-off-ramdisk", Do: powerOff, Tries: 3},                                                                        // Conductor -> BMC
	{Name: "detach-provisioning-net", Do: detachProvisioning, Ironic: deployStep("switch_to_tenant_network", 30)},              // Conductor -> DHCP
	{Name: "bind-tenant-net", Do: bindTenant},                                                                                  // Conductor -> DHCP
	{Name: "power-on", Do: powerOn, Ironic: deployStep("boot_instance", 20), Tries: 3},                                         // Conductor -> BMC
	{Name: "mark-active", Do: markActive},                                                                                      // Conductor -> Conductor
}

var deployFailed = []Step{
	{Name: "failed-collect-logs", Do: collectFailureLogs}, // Conductor -> Node
	{Name: "failed-power-off", Do: powerOffAfterFailure},  // Conductor -> BMC
	{Name: "failed-set-instance-dhcp", Do: bootDisk},      // Conductor -> DHCP
	{Name: "failed-detach-net", Do: detachProvisioning},   // Conductor -> DHCP
}

// FakeDeploy is what a node with the deploy interface "fake" does: Ironic's
// states without a ramdisk or an image.
var FakeDeploy = Workflow{
	Name:    "fake deploy",
	Running: store.Deploying, Waiting: store.DeployWait, Target: store.Active,
	Done: always(store.Active), Failed: store.DeployFailed,
	Steps: fakeDeploySteps,
}

// FakeRebuild is FakeDeploy on a node that has an instance already.
var FakeRebuild = Workflow{
	Name:    "fake rebuild",
	Running: store.Deploying, Waiting: store.DeployWait, Target: store.Active,
	Done: always(store.Active), Failed: store.DeployFailed,
	Steps: fakeDeploySteps,
}

var fakeDeploySteps = []Step{
	{Name: "validate", Do: validatePower, Ironic: deployStep("deploy", 100), Tries: 3}, // Conductor -> Conductor
	{Name: "store-configdrive", Do: storeConfigDrive},                                  // Conductor -> HTTPStore
	{Name: "bind-tenant-net", Do: bindTenant},                                          // Conductor -> DHCP
	{Name: "power-on", Do: powerOn, Ironic: deployStep("boot_instance", 20), Tries: 3}, // Conductor -> BMC
	{Name: "mark-active", Do: markActive},                                              // Conductor -> Conductor
}

func deployStep(name string, priority int) *store.IronicStep {
	return &store.IronicStep{Interface: "deploy", Step: name, Priority: priority}
}

// validate looks at everything that can be known before the node is touched.
func validate(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelValidate)
	if err := t.c.checkDeploy(t.Node, t.Ports); err != nil {
		return final(err)
	}
	return reachable(ctx, t)
}

// validatePower is validate without what concerns ramdisk and image.
func validatePower(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelValidate)
	return reachable(ctx, t)
}

// markActive is the last arrow of the diagram; the engine does what it says
// when the run ends.
func markActive(ctx context.Context, t *Task) error {
	t.Note(ctx, store.LabelMarkActive)
	return nil
}
