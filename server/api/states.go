package api

import (
	"net/http"
	"slices"
	"strings"

	"bessemer/store"
)

// provisionStates are all states of Ironic's machine.
var provisionStates = []store.ProvisionState{
	store.Enroll, store.Verifying, store.Manageable, store.Inspecting, store.InspectWait, store.InspectFailed,
	store.Cleaning, store.CleanWait, store.CleanHold, store.CleanFailed, store.Available, store.Deploying,
	store.DeployWait, store.DeployHold, store.DeployFailed, store.Active, store.Servicing, store.ServiceWait,
	store.ServiceHold, store.ServiceFailed, store.Rescuing, store.RescueWait, store.Rescue, store.RescueFailed,
	store.Unrescuing, store.UnrescueFailed, store.Adopting, store.AdoptFailed, store.Deleting, store.Error,
}

// deleteAllowed are the states in which a node may be deleted.
var deleteAllowed = []store.ProvisionState{store.Manageable, store.Enroll, store.AdoptFailed, store.Available}

// updateAllowed are the states with a target in which a node may be changed
// all the same.
var updateAllowed = []store.ProvisionState{
	store.DeployFailed, store.Inspecting, store.InspectFailed, store.InspectWait, store.CleanFailed, store.Error,
	store.Verifying, store.AdoptFailed, store.RescueFailed, store.UnrescueFailed, store.ServiceHold, store.ServiceFailed,
}

// ramdiskStates are the states in which a node's ramdisk is expected to call.
var ramdiskStates = []store.ProvisionState{
	store.Deploying, store.DeployWait, store.Cleaning, store.CleanWait, store.Inspecting, store.InspectWait,
	store.Rescuing, store.RescueWait, store.Servicing, store.ServiceWait,
}

func showStates(c *call) error {
	n, err := c.node()
	if err != nil {
		return err
	}
	shownFields := []string{
		"console_enabled", "last_error", "power_state", "provision_state", "target_power_state",
		"target_provision_state", "provision_updated_at", "raid_config", "target_raid_config", "boot_mode", "secure_boot",
	}
	out := map[string]any{}
	for _, name := range nodes.visible(c, shownFields) {
		out[name] = nodes.field(name).get(c, n)
	}
	c.json(http.StatusOK, out)
	return nil
}

func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

func splitList(s string) []string {
	return slices.DeleteFunc(strings.Split(s, ","), func(e string) bool { return e == "" })
}
