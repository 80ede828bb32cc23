package sim

import (
	"fmt"
)

func (rf *Redfish) getNICs(c call) (reply, error) {
	s := c.machine.Spec()
	var ids []string
	for i := range s.NICs {
		ids = append(ids, nicID(i))
	}
	return collection("/Systems/"+s.Name+"/EthernetInterfaces", "EthernetInterfaceCollection.EthernetInterfaceCollection", "Ethernet Interface", ids), nil
}

func nicID(i int) string { return fmt.Sprintf("NIC%d", i+1) }

func (rf *Redfish) getNIC(c call) (reply, error) {
	s := c.machine.Spec()
	for i, n := range s.NICs {
		if nicID(i) != c.PathValue("nic") {
			continue
		}
		speed := n.SpeedM
		if speed == 0 {
			speed = 1000
		}
		return reply{body: doc{
			"@odata.id":   root + "/Systems/" + s.Name + "/EthernetInterfaces/" + nicID(i),
			"@odata.type": "#EthernetInterface.v1_6_3.EthernetInterface",
			"Id":          nicID(i), "Name": "Network card " + fmt.Sprint(i+1), "Status": healthy(),
			"MACAddress": n.MAC, "PermanentMACAddress": n.MAC, "SpeedMbps": speed, "InterfaceEnabled": true, "LinkStatus": "LinkUp",
		}}, nil
	}
	return reply{}, missing(c.URL.Path)
}

func (rf *Redfish) getStorages(c call) (reply, error) {
	return collection("/Systems/"+c.machine.Spec().Name+"/Storage", "StorageCollection.StorageCollection", "Storage", []string{"1"}), nil
}

func (rf *Redfish) getStorage(c call) (reply, error) {
	s := c.machine.Spec()
	path := "/Systems/" + s.Name + "/Storage/1"
	drives := []doc{}
	for _, d := range s.Disks {
		drives = append(drives, link(path+"/Drives/"+d.Name))
	}
	return reply{body: doc{
		"@odata.id": root + path, "@odata.type": "#Storage.v1_9_0.Storage",
		"Id": "1", "Name": "Storage", "Status": healthy(), "Drives": drives, "Drives@odata.count": len(drives),
		"StorageControllers": []doc{{"@odata.id": root + path + "#/StorageControllers/0", "MemberId": "0", "Name": "Controller", "Status": healthy()}},
	}}, nil
}

func (rf *Redfish) getDrive(c call) (reply, error) {
	s := c.machine.Spec()
	for _, d := range s.Disks {
		if d.Name != c.PathValue("drive") {
			continue
		}
		media, protocol := "HDD", "SATA"
		switch d.Bus {
		case NVMe:
			media, protocol = "SSD", "NVMe"
		case VirtioSCSI:
			protocol = "SAS"
		}
		return reply{body: doc{
			"@odata.id":   root + "/Systems/" + s.Name + "/Storage/1/Drives/" + d.Name,
			"@odata.type": "#Drive.v1_11_0.Drive", "Id": d.Name, "Name": d.Name, "Status": healthy(),
			"CapacityBytes": d.Size, "BlockSizeBytes": 512, "SerialNumber": d.Serial, "Model": d.Model,
			"MediaType": media, "Protocol": protocol,
		}}, nil
	}
	return reply{}, missing(c.URL.Path)
}

func (rf *Redfish) getChassis(c call) (reply, error) {
	s := c.machine.Spec()
	return reply{body: doc{
		"@odata.id": root + "/Chassis/" + s.Name, "@odata.type": "#Chassis.v1_14_0.Chassis",
		"Id": s.Name, "Name": s.Name, "ChassisType": "RackMount", "Status": healthy(), "PowerState": c.powerWord(),
		"Manufacturer": s.Manufacturer, "Model": s.Model, "SerialNumber": s.Serial,
		"Links": doc{"ComputerSystems": []doc{link("/Systems/" + s.Name)}, "ManagedBy": []doc{link("/Managers/" + s.Name)}},
	}}, nil
}

func (rf *Redfish) getManager(c call) (reply, error) {
	s := c.machine.Spec()
	return reply{body: doc{
		"@odata.id": root + "/Managers/" + s.Name, "@odata.type": "#Manager.v1_11_0.Manager",
		"Id": s.Name, "Name": "Manager of " + s.Name, "ManagerType": "BMC", "Model": "Simulated", "FirmwareVersion": "1.0",
		"UUID": s.UUID, "Status": healthy(), "PowerState": "On",
		"Links": doc{"ManagerForServers": []doc{link("/Systems/" + s.Name)}, "ManagerForChassis": []doc{link("/Chassis/" + s.Name)}},
	}}, nil
}
