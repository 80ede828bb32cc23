package sim

import (
	"fmt"
)

func (rf *Redfish) getProcessors(c call) (reply, error) {
	return collection(c.systemPath()+"/Processors", "ProcessorCollection.ProcessorCollection", "Processors", []string{"CPU1"}), nil
}

func (rf *Redfish) getProcessor(c call) (reply, error) {
	n := max(c.machine.Spec().CPUs, 1)
	return reply{body: doc{
		"@odata.id": root + c.systemPath() + "/Processors/CPU1", "@odata.type": "#Processor.v1_10_0.Processor", "Id": "CPU1", "Name": "CPU 1",
		"Socket": "CPU1", "ProcessorType": "CPU", "ProcessorArchitecture": "x86", "InstructionSet": "x86-64", "Manufacturer": "Simulated",
		"Model": "Simulated processor", "TotalCores": n, "TotalThreads": n, "MaxSpeedMHz": 2400, "Status": healthy(),
	}}, nil
}

func (rf *Redfish) getMemories(c call) (reply, error) {
	return collection(c.systemPath()+"/Memory", "MemoryCollection.MemoryCollection", "Memory", []string{"DIMM1"}), nil
}

func (rf *Redfish) getMemory(c call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + c.systemPath() + "/Memory/DIMM1", "@odata.type": "#Memory.v1_10_0.Memory", "Id": "DIMM1", "Name": "DIMM 1",
		"MemoryType": "DRAM", "MemoryDeviceType": "DDR4", "CapacityMiB": c.machine.Spec().MemoryMiB, "OperatingSpeedMhz": 2666, "Status": healthy(),
	}}, nil
}

func (rf *Redfish) getAdapters(c call) (reply, error) {
	if c.on("R-21") {
		return reply{}, &fault{status: 400, message: "GeneralError", text: "The network adapters cannot be listed."}
	}
	var ids []string
	for i := range c.machine.Spec().NICs {
		ids = append(ids, nicID(i))
	}
	return collection(c.chassisPath()+"/NetworkAdapters", "NetworkAdapterCollection.NetworkAdapterCollection", "Network Adapters", ids), nil
}

func (rf *Redfish) getAdapter(c call) (reply, error) {
	s := c.machine.Spec()
	for i, n := range s.NICs {
		if nicID(i) != c.PathValue("nic") {
			continue
		}
		return reply{body: doc{
			"@odata.id": root + c.chassisPath() + "/NetworkAdapters/" + nicID(i), "@odata.type": "#NetworkAdapter.v1_5_0.NetworkAdapter",
			"Id": nicID(i), "Name": "Network adapter " + fmt.Sprint(i+1), "Manufacturer": s.Manufacturer, "Model": n.Model, "Status": healthy(),
			"SerialNumber": fmt.Sprintf("%s-N%d", s.Serial, i+1),
			"Controllers":  []doc{{"FirmwarePackageVersion": c.version("NIC"), "ControllerCapabilities": doc{"NetworkPortCount": 1}}},
		}}, nil
	}
	return reply{}, missing(c.URL.Path)
}
