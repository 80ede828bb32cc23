package sim

import (
	"net/http"
	"sync"
)

// A method answers one HTTP method of a resource.
type method func(*Redfish, call) (reply, error)

// A resource has a method per HTTP method.
type resource = map[string]method

// routes is the table of all resources, which all services share.
var routes = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	add := func(path string, methods resource) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			c := r.Context().Value(serviceKey{}).(*call)
			c.Request = r // with the values of the path
			c.serve(w, methods)
		})
	}
	for path, methods := range publicResources {
		add(path, methods)
	}
	for path, methods := range resources {
		guarded := resource{}
		for name, m := range methods {
			guarded[name] = authenticated(m)
		}
		add(root+path, guarded)
	}
	return mux
})

// publicResources may be reached by everybody.
var publicResources = map[string]resource{
	"/redfish":                      {"GET": (*Redfish).getVersions},
	root:                            {"GET": (*Redfish).getRoot},
	root + "/odata":                 {"GET": (*Redfish).getOData},
	root + "/SessionService":        {"GET": sessionful((*Redfish).getSessionService)},
	root + sessionsPath:             {"GET": sessionful(authenticated((*Redfish).getSessions)), "POST": sessionful((*Redfish).postSession)},
	root + sessionsPath + "/{name}": {"GET": sessionful(authenticated((*Redfish).getSession)), "DELETE": sessionful(authenticated((*Redfish).deleteSession))},
}

const (
	sessionsPath  = "/SessionService/Sessions"
	aSystem       = "/Systems/{machine}"
	aChassis      = "/Chassis/{machine}"
	aManager      = "/Managers/{machine}"
	aClearLog     = "/Actions/LogService.ClearLog"
	aResetKeys    = "/Actions/SecureBoot.ResetKeys"
	aSimpleUpdate = "/Actions/UpdateService.SimpleUpdate"
	anInsert      = "/Actions/VirtualMedia.InsertMedia"
	anEject       = "/Actions/VirtualMedia.EjectMedia"
)

// resources may be reached by users.
var resources = map[string]resource{
	"/Systems":  {"GET": getCollection("Systems", "ComputerSystemCollection.ComputerSystemCollection")},
	"/Chassis":  {"GET": getCollection("Chassis", "ChassisCollection.ChassisCollection")},
	"/Managers": {"GET": getCollection("Managers", "ManagerCollection.ManagerCollection")},

	aSystem: {"GET": (*Redfish).getSystem, "PATCH": (*Redfish).patchSystem},
	aSystem + "/Actions/ComputerSystem.Reset":    {"POST": (*Redfish).postReset},
	aSystem + "/ResetActionInfo":                 {"GET": (*Redfish).getResetInfo},
	aSystem + "/SD":                              {"GET": (*Redfish).getSettings, "PATCH": (*Redfish).patchSettings},
	aSystem + "/BootOptions":                     {"GET": (*Redfish).getBootOptions},
	aSystem + "/BootOptions/{option}":            {"GET": (*Redfish).getBootOption},
	aSystem + "/Bios":                            {"GET": (*Redfish).getBios},
	aSystem + "/Bios/Settings":                   {"GET": (*Redfish).getBiosSettings, "PATCH": (*Redfish).patchBiosSettings},
	aSystem + "/Bios/Actions/Bios.ResetBios":     {"POST": (*Redfish).postResetBios},
	aSystem + "/SecureBoot":                      {"GET": (*Redfish).getSecureBoot, "PATCH": (*Redfish).patchSecureBoot},
	aSystem + "/SecureBoot" + aResetKeys:         {"POST": (*Redfish).postResetKeys},
	aSystem + "/EthernetInterfaces":              {"GET": (*Redfish).getNICs},
	aSystem + "/EthernetInterfaces/{nic}":        {"GET": (*Redfish).getNIC},
	aSystem + "/Storage":                         {"GET": (*Redfish).getStorages},
	aSystem + "/Storage/1":                       {"GET": (*Redfish).getStorage},
	aSystem + "/Storage/1/Drives/{drive}":        {"GET": (*Redfish).getDrive},
	aSystem + "/Processors":                      {"GET": (*Redfish).getProcessors},
	aSystem + "/Processors/CPU1":                 {"GET": (*Redfish).getProcessor},
	aSystem + "/Memory":                          {"GET": (*Redfish).getMemories},
	aSystem + "/Memory/DIMM1":                    {"GET": (*Redfish).getMemory},
	aSystem + "/LogServices":                     {"GET": (*Redfish).getLogs},
	aSystem + "/LogServices/SEL":                 {"GET": (*Redfish).getLog},
	aSystem + "/LogServices/SEL" + aClearLog:     {"POST": (*Redfish).postClearLog},
	aSystem + "/LogServices/SEL/Entries":         {"GET": (*Redfish).getEntries},
	aSystem + "/LogServices/SEL/Entries/{entry}": {"GET": (*Redfish).getEntry},

	aChassis:                            {"GET": (*Redfish).getChassis},
	aChassis + "/Thermal":               {"GET": (*Redfish).getThermal},
	aChassis + "/Power":                 {"GET": (*Redfish).getPower},
	aChassis + "/Sensors":               {"GET": (*Redfish).getSensors},
	aChassis + "/Sensors/{sensor}":      {"GET": (*Redfish).getSensor},
	aChassis + "/NetworkAdapters":       {"GET": (*Redfish).getAdapters},
	aChassis + "/NetworkAdapters/{nic}": {"GET": (*Redfish).getAdapter},

	aManager:                            {"GET": (*Redfish).getManager},
	aManager + "/Actions/Manager.Reset": {"POST": (*Redfish).postManagerReset},

	aSystem + "/VirtualMedia":                     {"GET": (*Redfish).getMedias},
	aSystem + "/VirtualMedia/{media}":             {"GET": (*Redfish).getMedia, "PATCH": (*Redfish).patchMedia},
	aSystem + "/VirtualMedia/{media}" + anInsert:  {"POST": (*Redfish).postInsert},
	aSystem + "/VirtualMedia/{media}" + anEject:   {"POST": (*Redfish).postEject},
	aManager + "/VirtualMedia":                    {"GET": (*Redfish).getMedias},
	aManager + "/VirtualMedia/{media}":            {"GET": (*Redfish).getMedia, "PATCH": (*Redfish).patchMedia},
	aManager + "/VirtualMedia/{media}" + anInsert: {"POST": (*Redfish).postInsert},
	aManager + "/VirtualMedia/{media}" + anEject:  {"POST": (*Redfish).postEject},

	"/UpdateService":                               {"GET": (*Redfish).getUpdateService},
	"/UpdateService/FirmwareInventory":             {"GET": (*Redfish).getFirmwares},
	"/UpdateService" + aSimpleUpdate:               {"POST": (*Redfish).postSimpleUpdate},
	"/UpdateService/FirmwareInventory/{component}": {"GET": (*Redfish).getFirmware},
	"/Registries":                                  {"GET": (*Redfish).getRegistries},
}
