package sim

import "slices"

func (rf *Redfish) getUpdateService(call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + "/UpdateService", "@odata.type": "#UpdateService.v1_8_1.UpdateService", "Id": "UpdateService", "Name": "Update Service",
		"Status": healthy(), "ServiceEnabled": true, "FirmwareInventory": link("/UpdateService/FirmwareInventory"),
		"Actions": doc{"#UpdateService.SimpleUpdate": doc{"target": root + "/UpdateService" + aSimpleUpdate}},
	}}, nil
}

// postSimpleUpdate refuses: simulated firmware has a version, and no content.
func (rf *Redfish) postSimpleUpdate(call) (reply, error) {
	return reply{}, &fault{status: 501, message: "GeneralError", text: "A simulated machine's firmware cannot be updated."}
}

// inventory lists the firmware of all machines, by "<machine>-<component>" where
// there are several.
func (rf *Redfish) inventory() map[string]Firmware {
	all := map[string]Firmware{}
	for i, c := range rf.controllers {
		for _, f := range c.Inventory() {
			id := f.ID
			if len(rf.machines) > 1 {
				id = rf.machines[i].Spec().Name + "-" + f.ID
			}
			all[id] = f
		}
	}
	return all
}

func (rf *Redfish) getFirmwares(call) (reply, error) {
	var ids []string
	for id := range rf.inventory() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return collection("/UpdateService/FirmwareInventory", "SoftwareInventoryCollection.SoftwareInventoryCollection", "Firmware Inventory", ids), nil
}

func (rf *Redfish) getFirmware(c call) (reply, error) {
	id := c.PathValue("component")
	f, ok := rf.inventory()[id]
	if !ok {
		return reply{}, missing(c.URL.Path)
	}
	return reply{body: doc{
		"@odata.id": root + "/UpdateService/FirmwareInventory/" + id, "@odata.type": "#SoftwareInventory.v1_3_0.SoftwareInventory",
		"Id": id, "Name": f.Name, "Version": f.Version, "Updateable": f.Updateable, "SoftwareId": f.ID, "Status": healthy(),
	}}, nil
}
