package api

import "net/http"

// A route is one method of one path.
type route struct {
	method, path string
	do           func(*call) error
	opts         routeOpts
}

// routeOpts is what a route needs beside its handler.
type routeOpts struct {
	since  version // of Ironic's API, in which the endpoint came
	below  int     // the answer below since; 404 when 0
	limit  int64   // bytes of a JSON body; 1 MiB when 0
	stream bool    // the handler reads the body itself
	admin  bool    // also reading is for admins only
	anyone bool    // readers may write here: it is their own
	open   bool    // needs no credentials
	arrow  func(*call) string
}

const (
	defaultLimit   = 1 << 20
	provisionLimit = 64 << 20
	inspectLimit   = 16 << 20
)

// ironicRoutes are Ironic's API: one line per endpoint.
func ironicRoutes() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	no405 := http.StatusMethodNotAllowed
	return []route{
		{get, "/v1", v1, routeOpts{open: true}},

		{get, "/v1/nodes", listNodes, routeOpts{}},
		{post, "/v1/nodes", createNode, routeOpts{}},
		{get, "/v1/nodes/detail", listNodesDetail, routeOpts{}},
		{get, "/v1/nodes/validate", validateNodeByQuery, routeOpts{}},
		{get, "/v1/nodes/{node}", showNode, routeOpts{}},
		{patch, "/v1/nodes/{node}", patchNode, routeOpts{arrow: patchLabel}},
		{del, "/v1/nodes/{node}", deleteNode, routeOpts{}},
		{get, "/v1/nodes/{node}/validate", validateNode, routeOpts{arrow: says(labelValidate)}},
		{put, "/v1/nodes/{node}/maintenance", setMaintenance, routeOpts{arrow: says("Set maintenance")}},
		{del, "/v1/nodes/{node}/maintenance", clearMaintenance, routeOpts{arrow: says("Clear maintenance")}},

		{get, "/v1/nodes/{node}/states", showStates, routeOpts{}},
		{put, "/v1/nodes/{node}/states/power", setPower, routeOpts{arrow: says(labelSetPower)}},
		{put, "/v1/nodes/{node}/states/provision", setProvision, routeOpts{limit: provisionLimit, arrow: says(labelSetProvisionState)}},

		{get, "/v1/nodes/{node}/management/boot_device", showBootDevice, routeOpts{}},
		{put, "/v1/nodes/{node}/management/boot_device", setBootDevice, routeOpts{arrow: says("Set boot device")}},
		{get, "/v1/nodes/{node}/management/boot_device/supported", listBootDevices, routeOpts{}},

		{get, "/v1/nodes/{node}/traits", listTraits, routeOpts{since: 37}},
		{put, "/v1/nodes/{node}/traits", setTraits, routeOpts{since: 37, below: no405}},
		{del, "/v1/nodes/{node}/traits", removeTraits, routeOpts{since: 37}},
		{put, "/v1/nodes/{node}/traits/{trait}", addTrait, routeOpts{since: 37, below: no405}},
		{del, "/v1/nodes/{node}/traits/{trait}", removeTrait, routeOpts{since: 37}},

		{get, "/v1/nodes/{node}/vifs", listVIFs, routeOpts{since: 28}},
		{post, "/v1/nodes/{node}/vifs", attachVIF, routeOpts{since: 28, arrow: says(labelPlugVIFs)}},
		{del, "/v1/nodes/{node}/vifs/{vif}", detachVIF, routeOpts{since: 28, arrow: says("Unplug VIF from the node")}},

		{get, "/v1/nodes/{node}/ports", listNodePorts, routeOpts{}},
		{get, "/v1/nodes/{node}/ports/detail", listNodePortsDetail, routeOpts{}},

		{get, "/v1/nodes/{node}/vendor_passthru/methods", noMethods, routeOpts{}},
		{get, "/v1/nodes/{node}/vendor_passthru", noSuchMethod, routeOpts{}},
		{post, "/v1/nodes/{node}/vendor_passthru", noSuchMethod, routeOpts{}},
		{put, "/v1/nodes/{node}/vendor_passthru", noSuchMethod, routeOpts{}},
		{del, "/v1/nodes/{node}/vendor_passthru", noSuchMethod, routeOpts{}},
		{post, "/v1/nodes/{node}/vendor_passthru/{method}", noSuchMethod, routeOpts{}},
		{put, "/v1/nodes/{node}/vendor_passthru/{method}", noSuchMethod, routeOpts{}},
		{del, "/v1/nodes/{node}/vendor_passthru/{method}", noSuchMethod, routeOpts{}},

		{get, "/v1/ports", listPorts, routeOpts{}},
		{post, "/v1/ports", createPort, routeOpts{}},
		{get, "/v1/ports/detail", listPortsDetail, routeOpts{}},
		{get, "/v1/ports/{port}", showPort, routeOpts{}},
		{patch, "/v1/ports/{port}", patchPort, routeOpts{}},
		{del, "/v1/ports/{port}", deletePort, routeOpts{}},

		{get, "/v1/drivers", listDrivers, routeOpts{}},
		{get, "/v1/drivers/{driver}", showDriver, routeOpts{}},
		{get, "/v1/drivers/{driver}/properties", showDriverProperties, routeOpts{}},
		{get, "/v1/drivers/{driver}/raid/logical_disk_properties", showLogicalDiskProperties, routeOpts{since: 12, below: http.StatusNotAcceptable}},
		{get, "/v1/drivers/{driver}/vendor_passthru/methods", noDriverMethods, routeOpts{}},

		{get, "/v1/conductors", listConductors, routeOpts{since: 49}},
		{get, "/v1/conductors/{host}", showConductor, routeOpts{since: 49}},
	}
}

// ramdiskRoutes are what the provisioning listener answers.
func ramdiskRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/", discovery, routeOpts{open: true}},
		{get, "/v1", v1, routeOpts{open: true}},
		{get, "/v1/lookup", lookup, routeOpts{open: true, since: 22}},
		{post, "/v1/heartbeat/{node}", heartbeat, routeOpts{open: true, since: 22}},
		{post, "/v1/continue_inspection", continueInspection, routeOpts{open: true, limit: inspectLimit}},
	}
}

// ownRoutes are our own API and the probes.
func ownRoutes() []route {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	return []route{
		{get, "/healthz", healthz, routeOpts{open: true}},
		{get, "/readyz", readyz, routeOpts{open: true}},
		{get, "/metrics", showMetrics, routeOpts{}},

		{get, "/api/v1/openapi.json", showOpenAPI, routeOpts{}},
		{get, "/api/v1/status", showStatus, routeOpts{}},
		{get, "/api/v1/runs", listRuns, routeOpts{}},
		{get, "/api/v1/runs/{run}", showRun, routeOpts{}},
		{get, "/api/v1/traces/{trace}", showTrace, routeOpts{}},
		{get, "/api/v1/nodes/{node}/trace", showNodeTrace, routeOpts{}},
		{get, "/api/v1/nodes/{node}/explain", explainNode, routeOpts{}},
		{get, "/api/v1/events", streamEvents, routeOpts{}},

		{get, "/api/v1/discovered", listDiscovered, routeOpts{}},
		{del, "/api/v1/discovered/{mac}", deleteDiscovered, routeOpts{}},
		{get, "/api/v1/leases", listLeases, routeOpts{}},

		{get, "/api/v1/images", listImages, routeOpts{}},
		{post, "/api/v1/images", addImage, routeOpts{}},
		{get, "/api/v1/images/{image}", showImage, routeOpts{}},
		{put, "/api/v1/images/{image}", uploadImage, routeOpts{stream: true}},
		{del, "/api/v1/images/{image}", deleteImage, routeOpts{}},

		{post, "/api/v1/tokens", login, routeOpts{open: true, limit: 8 << 10}},
		{del, "/api/v1/tokens", logout, routeOpts{anyone: true}},
		{get, "/api/v1/users", listUsers, routeOpts{admin: true}},
		{post, "/api/v1/users", createUser, routeOpts{admin: true}},
		{get, "/api/v1/users/{user}", showUser, routeOpts{admin: true}},
		{patch, "/api/v1/users/{user}", changeUser, routeOpts{admin: true}},
		{del, "/api/v1/users/{user}", deleteUser, routeOpts{admin: true}},

		{get, "/api/v1/backup", backup, routeOpts{admin: true}},
		{get, "/api/v1/check", check, routeOpts{admin: true}},
	}
}
