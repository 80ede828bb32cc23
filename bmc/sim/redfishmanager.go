package sim

func (rf *Redfish) getManager(c call) (reply, error) {
	s := c.machine.Spec()
	path := "/Managers/" + s.Name
	return reply{body: doc{
		"@odata.id": root + path, "@odata.type": "#Manager.v1_11_0.Manager",
		"Id": s.Name, "Name": "Manager of " + s.Name, "ManagerType": "BMC", "Model": "Simulated", "FirmwareVersion": c.version("BMC"),
		"UUID": s.UUID, "Status": healthy(), "PowerState": "On", "DateTime": c.clock(), "DateTimeLocalOffset": "+00:00",
		"VirtualMedia": link(path + "/VirtualMedia"),
		"Links":        doc{"ManagerForServers": []doc{link("/Systems/" + s.Name)}, "ManagerForChassis": []doc{link("/Chassis/" + s.Name)}},
		"Actions": doc{"#Manager.Reset": doc{
			"target":                            root + path + "/Actions/Manager.Reset",
			"ResetType@Redfish.AllowableValues": managerResets,
		}},
	}}, nil
}

var managerResets = []string{"ForceRestart", "GracefulRestart"}

// postManagerReset restarts the controller: its sessions end.
func (rf *Redfish) postManagerReset(c call) (reply, error) {
	for _, kind := range managerResets {
		if c.body["ResetType"] == kind {
			rf.DropSessions()
			return reply{}, nil
		}
	}
	return reply{}, badValue("ResetType", c.body["ResetType"])
}
