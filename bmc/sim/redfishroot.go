package sim

import (
	"slices"
	"strings"

	"github.com/google/uuid"
)

func (rf *Redfish) getVersions(call) (reply, error) {
	return reply{body: doc{"v1": root + "/"}}, nil
}

func (rf *Redfish) getRoot(c call) (reply, error) {
	body := doc{
		"@odata.id": root + "/", "@odata.type": "#ServiceRoot.v1_9_0.ServiceRoot",
		"Id": "RootService", "Name": "Root Service", "RedfishVersion": "1.11.0",
		"Vendor": "Bessemer", "Product": "Simulated rack",
		"UUID":    uuid.NewSHA1(uuid.NameSpaceOID, []byte(rf.name())).String(),
		"Systems": link("/Systems"), "Chassis": link("/Chassis"), "Managers": link("/Managers"), "UpdateService": link("/UpdateService"),
		"Links": doc{},
	}
	if c.on("R-22") {
		body["Vendor"] = "HPE"
	}
	if c.on("N-05") {
		body["Vendor"] = "Dell"
	}
	if c.on("R-24") {
		body["Registries"] = link("/Registries")
	}
	if rf.hasSessions(c) {
		body["SessionService"] = link("/SessionService")
		body["Links"] = doc{"Sessions": link("/SessionService/Sessions")}
	}
	return reply{body: body}, nil
}

// getOData lists the services for OData clients (DSP0266, 8.4.3).
func (rf *Redfish) getOData(call) (reply, error) {
	var value []doc
	for _, name := range []string{"Systems", "Chassis", "Managers", "UpdateService"} {
		value = append(value, doc{"name": name, "kind": "Singleton", "url": root + "/" + name})
	}
	return reply{body: doc{"@odata.context": root + "/$metadata", "value": value}}, nil
}

func (rf *Redfish) name() string {
	if len(rf.machines) == 0 {
		return "empty"
	}
	return rf.machines[0].Spec().UUID
}

// getCollection answers a collection that has one member per machine.
func getCollection(name, kind string) method {
	return func(rf *Redfish, c call) (reply, error) {
		var ids []string
		for _, m := range rf.machines {
			ids = append(ids, m.Spec().Name)
		}
		return collection("/"+name, kind, name, c.others(name, ids)), nil
	}
}

// getRegistries is much too large for any client to read without need.
func (rf *Redfish) getRegistries(c call) (reply, error) {
	if !c.on("R-24") {
		return reply{}, missing(c.URL.Path)
	}
	out := collection("/Registries", "MessageRegistryFileCollection.MessageRegistryFileCollection", "Registry File", nil)
	out.body["Oem"] = strings.Repeat("x", 16<<20)
	return out, nil
}

func collection(path, kind, name string, ids []string) reply {
	slices.Sort(ids)
	members := []doc{}
	for _, id := range ids {
		members = append(members, link(path+"/"+id))
	}
	return reply{body: doc{
		"@odata.id": root + path, "@odata.type": "#" + kind, "Name": name + " Collection",
		"Members": members, "Members@odata.count": len(members),
	}}
}

func link(path string) doc { return doc{"@odata.id": root + path} }

func healthy() doc { return doc{"State": "Enabled", "Health": "OK"} }
