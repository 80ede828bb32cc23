package sim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish"

	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

// A second client that we did not write reads what a controller shows.
func TestGofish(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("power on", b.client.PowerOn(t.Context()))
	api, err := gofish.Connect(gofish.ClientConfig{Endpoint: b.url, Username: "admin", Password: "right-4711"})
	b.ok("connect", err)
	defer api.Logout()
	has := func(what string, n int, err error) {
		t.Helper()
		if err != nil || n == 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	systems, err := api.Service.Systems()
	b.ok("systems", err)
	s := systems[0]
	if s.UUID != b.m.Spec().UUID || s.BiosVersion != "2.4.1" {
		t.Errorf("system %+v", s)
	}
	bios, err := s.Bios()
	b.ok("bios", err)
	has("attributes", len(bios.Attributes), nil)
	if err := bios.UpdateBiosAttributes(map[string]any{"SysProfile": "Perf"}); err != nil {
		t.Errorf("set attribute: %v", err)
	}
	if _, pending := b.ctl.BIOS(); pending["SysProfile"] != "Perf" {
		t.Errorf("pending %v", pending)
	}
	nics, err := s.EthernetInterfaces()
	has("network cards", len(nics), err)
	storage, err := s.Storage()
	has("storage", len(storage), err)
	cpus, err := s.Processors()
	has("processors", len(cpus), err)
	memory, err := s.Memory()
	has("memory", len(memory), err)
	options, err := s.BootOptions()
	has("boot options", len(options), err)
	_, err = s.SecureBoot()
	b.ok("secure boot", err)
	logs, err := s.LogServices()
	b.ok("logs", err)
	entries, err := logs[0].Entries()
	has("log entries", len(entries), err)
	_, err = logs[0].ClearLog("")
	b.ok("clear log", err)
	has("entries after that", 1-len(b.ctl.Entries()), nil)

	chassis, err := api.Service.Chassis()
	b.ok("chassis", err)
	thermal, err := chassis[0].Thermal()
	b.ok("thermal", err)
	has("fans", len(thermal.Fans), nil)
	power, err := chassis[0].Power()
	b.ok("power", err)
	has("voltages", len(power.Voltages), nil)
	sensors, err := chassis[0].Sensors()
	has("sensors", len(sensors), err)
	adapters, err := chassis[0].NetworkAdapters()
	has("adapters", len(adapters), err)

	managers, err := api.Service.Managers()
	b.ok("managers", err)
	media, err := managers[0].VirtualMedia()
	has("drives", len(media), err)
	update, err := api.Service.UpdateService()
	b.ok("update service", err)
	firmware, err := update.FirmwareInventory()
	has("firmware", len(firmware), err)
}

// TestLinks follows every link of the service: there is nothing behind none.
func TestLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.ok("power on", b.client.PowerOn(t.Context()))
	seen := []string{"/redfish/v1/"}
	for i := 0; i < len(seen); i++ {
		resp, d := b.raw("GET", seen[i], "")
		if resp.StatusCode != 200 {
			t.Errorf("GET %s: %s", seen[i], resp.Status)
		}
		if id, _ := d["@odata.id"].(string); strings.TrimSuffix(id, "/") != strings.TrimSuffix(seen[i], "/") {
			t.Errorf("%s calls itself %q", seen[i], id)
		}
		walk(d, func(id string) {
			if id, _, _ = strings.Cut(id, "#"); !slices.Contains(seen, id) {
				seen = append(seen, id)
			}
		})
	}
	if len(seen) < 50 {
		t.Errorf("found %d resources only", len(seen))
	}
}

func walk(v any, visit func(id string)) {
	switch v := v.(type) {
	case object:
		for key, value := range v {
			if id, ok := value.(string); ok && key == "@odata.id" {
				visit(id)
			}
			walk(value, visit)
		}
	case []any:
		for _, value := range v {
			walk(value, visit)
		}
	}
}

// BenchmarkService shows what one of a thousand idle services allocates, with
// its controller.
func BenchmarkService(b *testing.B) {
	m := sim.NewMemory(sim.Spec{Name: "node-1"}, 0)
	b.ReportAllocs()
	for b.Loop() {
		kept = sim.NewRedfish(sim.RedfishOptions{
			Controllers: func(m sim.Machine) *sim.Controller { return sim.NewController(m, flaw.NewSet(1)) },
		}, m)
	}
}

var kept *sim.Redfish
