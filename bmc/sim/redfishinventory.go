package sim

import (
	"fmt"
	"slices"
	"strings"
)

// getNICs lists the network cards; some controllers know of none (N-04), some
// of one that has no address besides (N-01).
func (rf *Redfish) getNICs(c call) (reply, error) {
	switch {
	case c.on("R-21"):
		return reply{}, &fault{status: 400, message: "GeneralError", text: "The network cards cannot be listed."}
	case c.on("N-04"):
		return reply{}, missing(c.URL.Path)
	}
	ids := []string{}
	for i := range c.machine.Spec().NICs {
		ids = append(ids, nicID(i))
	}
	if c.on("N-01") {
		ids = append(ids, nicID(len(ids)), nicID(len(ids)+1))
	}
	return collection(c.systemPath()+"/EthernetInterfaces", "EthernetInterfaceCollection.EthernetInterfaceCollection", "Ethernet Interface", ids), nil
}

func nicID(i int) string { return fmt.Sprintf("NIC%d", i+1) }

func (rf *Redfish) getNIC(c call) (reply, error) {
	nics := c.machine.Spec().NICs
	if c.on("N-01") {
		nics = append(slices.Clone(nics), NIC{MAC: "N/A"}, NIC{})
	}
	for i, n := range nics {
		if nicID(i) != c.PathValue("nic") {
			continue
		}
		if n.SpeedM == 0 {
			n.SpeedM = 1000
		}
		var mac any = c.spelled(n.MAC)
		if n.MAC == "" {
			mac = nil
		}
		return reply{body: doc{
			"@odata.id":   root + c.systemPath() + "/EthernetInterfaces/" + nicID(i),
			"@odata.type": "#EthernetInterface.v1_6_3.EthernetInterface",
			"Id":          nicID(i), "Name": "Network card " + fmt.Sprint(i+1), "Status": healthy(),
			"MACAddress": mac, "PermanentMACAddress": mac, "SpeedMbps": n.SpeedM, "InterfaceEnabled": true, "LinkStatus": "LinkUp",
		}}, nil
	}
	return reply{}, missing(c.URL.Path)
}

// spelled writes a MAC address as the controller spells them (N-02).
func (c call) spelled(mac string) string {
	if c.on("N-02") {
		return strings.ToUpper(strings.ReplaceAll(mac, ":", "-"))
	}
	return mac
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
		"Thermal": link(c.chassisPath() + "/Thermal"), "Power": link(c.chassisPath() + "/Power"), "Sensors": link(c.chassisPath() + "/Sensors"),
		"NetworkAdapters": link(c.chassisPath() + "/NetworkAdapters"),
		"Links":           doc{"ComputerSystems": []doc{link("/Systems/" + s.Name)}, "ManagedBy": []doc{link("/Managers/" + s.Name)}},
	}}, nil
}
