package sim_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
	"bessemer/store"
)

// TestQuirks deploys a machine, as far as a controller has to do with that,
// for each quirk of boot device, power, Redfish and virtual media; and shows
// that the machine really has the quirk, or what else it needs.
func TestQuirks(t *testing.T) {
	t.Parallel()
	for _, row := range flaw.Rows() {
		check := quirkChecks[row.ID]
		if strings.ContainsAny(string(row.ID[0]), "BRV") && (row.Status == flaw.Flag) != (check != nil) {
			t.Errorf("%s is a %s; there is a check for it: %v", row.ID, row.Status, check != nil)
		}
	}
	for id, check := range quirkChecks {
		t.Run(string(id), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, id)
			b.deploy()
			check(b)
			b.ok("close", b.pool.Close())
			if n := b.rf.Sessions(); n != 0 {
				t.Errorf("%d sessions are left open", n)
			}
		})
	}
}

const (
	pxeOnce = `{"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideMode": "UEFI"}}`
	pxeOnly = `{"Boot": {"BootSourceOverrideTarget": "Pxe"}}`
)

// quirkChecks show that a machine that was deployed has a quirk, and what of
// the right behaviour deploying does not need.
var quirkChecks = map[flaw.ID]func(*bench){
	"B-01": func(b *bench) { b.neededTries(2) },
	"B-02": func(b *bench) {
		b.answers(200, "PATCH", benchSystem, `{"Boot": {"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Hdd"}}`)
		b.answers(200, "PATCH", benchSystem, pxeOnly)
		if got := b.m.Boot(); got.Persistent {
			b.t.Errorf("the target alone left %s", got)
		}
	},
	"B-03": func(b *bench) { b.answers(400, "PATCH", benchSystem, pxeOnly) },
	"B-04": func(b *bench) {
		b.answers(400, "PATCH", benchSystem, strings.Replace(pxeOnce, "Once", "Continuous", 1))
	},
	"B-05": func(b *bench) {
		b.answers(400, "PATCH", benchSystem, pxeOnce)
		if mode, ok := b.boot()["BootSourceOverrideMode"]; ok {
			b.t.Errorf("shows mode %v", mode)
		}
	},
	"B-06": func(b *bench) {
		b.answers(400, "PATCH", benchSystem, pxeOnce)
		b.answers(200, "PATCH", benchSystem+"/SD", pxeOnce)
		d := b.driver()
		defer d.Close()
		if got, err := d.Boot(b.t.Context()); err != nil || got.Device != bmc.PXE {
			b.t.Errorf("after a restart: read %s, %v", got, err)
		}
	},
	"B-07": func(b *bench) {
		b.answers(400, "PATCH", benchSystem, strings.Replace(pxeOnce, "Pxe", "None", 1))
	},
	"B-08": func(b *bench) {
		b.shows("Off", func() bool { return b.m.PowerState() == store.PowerOn })
	},
	"B-09": func(b *bench) {
		b.answers(409, "POST", benchReset, `{"ResetType": "ForceOff"}`)
		b.ctl.Flaws.Turn(true, "B-08") // so that the client does not know what is so already
		b.raw("GET", benchSystem, "")
		b.ok("turn on", b.m.Power(b.t.Context(), bmc.On))
		b.becomes(store.PowerOn)
		b.ok("power on what is on", b.client.PowerOn(b.t.Context()))
	},
	"B-10": func(b *bench) {
		b.answers(400, "POST", benchReset, `{"ResetType": "GracefulRestart"}`)
		b.ok("power on", b.client.PowerOn(b.t.Context()))
		d := b.driver()
		defer d.Close()
		b.ok("reset", d.Power(b.t.Context(), bmc.Reset))
	},
	"B-11": func(b *bench) {
		ctx := b.t.Context()
		b.ok("power on", b.client.PowerOn(ctx))
		if err := b.client.SoftPowerOff(ctx, 100*time.Millisecond); !errors.Is(err, bmc.ErrNoEffect) {
			b.t.Errorf("soft power off: got %v, want ErrNoEffect", err)
		}
		b.ok("power off", b.client.PowerOff(ctx))
		b.ok("power on", b.client.PowerOn(ctx))
	},
	"B-12": func(b *bench) {
		ctx := b.t.Context()
		b.ok("power on", b.client.PowerOn(ctx))
		b.ok("turn off in band", b.m.Power(ctx, bmc.SoftOff))
		b.becomes(store.PowerOff)
		b.answers(204, "POST", benchReset, `{"ResetType": "On"}`)
		if s := b.m.PowerState(); s != store.PowerOff {
			b.t.Errorf("the machine is %q", s)
		}
		b.ok("power on", b.client.PowerOn(ctx))
	},
	"B-13": func(b *bench) {
		ctx := b.t.Context()
		b.ok("power on", b.client.PowerOn(ctx))
		n := len(b.m.Starts())
		b.answers(204, "POST", benchReset, `{"ResetType": "ForceRestart"}`)
		time.Sleep(50 * time.Millisecond)
		if got := len(b.m.Starts()); got != n {
			b.t.Errorf("%d starts", got-n)
		}
		b.ok("reboot", b.client.Reboot(ctx))
		if got := len(b.m.Starts()); got != n+1 {
			b.t.Errorf("%d starts in a reboot", got-n)
		}
	},
	"B-14": func(b *bench) {
		ctx := b.t.Context()
		b.ok("set boot device", b.client.SetBoot(ctx, bmc.Boot{Device: bmc.PXE, Mode: sim.BIOS}))
		if mode := b.boot()["BootSourceOverrideMode"]; mode != "UEFI" {
			b.t.Errorf("shows mode %v at once", mode)
		}
		b.ok("reboot", b.client.Reboot(ctx))
		if got, err := b.client.Boot(ctx); err != nil || got.Mode != sim.BIOS {
			b.t.Errorf("read back %+v, %v", got, err)
		}
	},
	"B-16": func(b *bench) {
		b.neededTries(2)
		ctx, card := b.t.Context(), bmc.Boot{Device: bmc.PXE, Mode: sim.UEFI, Card: "52:54:00:be:55:02"}
		b.ok("set boot device", b.client.SetBoot(ctx, card))
		if got, _ := b.boot()["UefiTargetBootSourceOverride"].(string); !strings.Contains(got, "MAC(525400BE5502") {
			b.t.Errorf("names the card %q", got)
		}
	},
	"B-17": func(b *bench) {
		want := b.boot()["BootOrder"].([]any)
		b.answers(200, "PATCH", benchSystem, pxeOnce)
		if got := b.boot()["BootOrder"].([]any); len(got) != len(want)-1 {
			b.t.Errorf("boot order %v", got)
		}
		b.ctl.Flaws.Turn(false, "B-17")
		b.answers(200, "PATCH", benchSystem, pxeOnce)
		b.ctl.Flaws.Turn(true, "B-17")
		b.ok("set boot device", b.client.SetBoot(b.t.Context(), bmc.Boot{Device: bmc.Disk, Persistent: true}))
		if got := b.boot()["BootOrder"].([]any); !slices.Equal(got, want) {
			b.t.Errorf("boot order %v, want %v", got, want)
		}
	},
	"B-18": func(b *bench) {
		b.ctl.Flaws.Turn(false, "B-18")
		b.answers(200, "GET", benchSystem, "")
		b.ctl.Flaws.Turn(true, "B-18")
		b.answers(404, "GET", benchSystem, "")
		_, err := b.client.PowerState(b.t.Context())
		b.ok("power state", err)
	},
	"B-20": func(b *bench) {
		b.answers(500, "POST", benchReset, `{"ResetType": "On"}`)
		b.becomes(store.PowerOn)
	},
	"B-21": func(b *bench) {
		b.shows("Paused", func() bool { return true })
	},

	"R-01": func(b *bench) { b.answers(428, "PATCH", benchSystem, pxeOnce) },
	"R-02": func(b *bench) { b.answers(412, "PATCH", benchSystem, pxeOnce, "If-Match", "*") },
	"R-03": func(b *bench) {
		resp, _ := b.raw("GET", benchSystem, "")
		tag := resp.Header.Get("ETag")
		if !strings.HasPrefix(tag, "W/") || !strings.HasSuffix(tag, `-gzip"`) {
			b.t.Errorf("ETag %s", tag)
		}
		b.answers(412, "PATCH", benchSystem, pxeOnce, "If-Match", tag)
	},
	"R-04": func(b *bench) {
		resp, d := b.raw("GET", benchSystem, "")
		tag := resp.Header.Get("ETag")
		b.answers(412, "PATCH", benchSystem, pxeOnce, "If-Match", tag)
		b.answers(412, "PATCH", benchSystem, pxeOnce, "If-Match", strings.Trim(tag, `"`))
		b.answers(200, "PATCH", benchSystem, pxeOnce, "If-Match", d["@odata.etag"].(string))
	},
	"R-05": func(b *bench) { b.answers(412, "POST", benchReset, `{"ResetType": "On"}`, "If-Match", "*") },
	"R-06": func(b *bench) {
		b.answers(503, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName": "admin", "Password": "right-4711"}`)
		if n := b.rf.Sessions(); n != 0 {
			b.t.Errorf("%d sessions", n)
		}
	},
	"R-07": func(b *bench) {
		one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
		defer one.CloseIdleConnections()
		for n := range 2 {
			if _, _, err := b.rawBy(one, "POST", benchReset, `{"ResetType": "ForceOff"}`); (err != nil) != (n == 1) {
				b.t.Errorf("request %d of a connection: %v", n, err)
			}
		}
	},
	"R-08": func(b *bench) { b.answers(406, "GET", benchSystem, "", "Accept-Encoding", "identity") },
	"R-09": func(b *bench) { b.answers(404, "GET", "/redfish/v1/SessionService", "") },
	"R-10": func(b *bench) {
		if n := b.count("POST /redfish/v1/SessionService/Sessions"); n < 3 {
			b.t.Errorf("%d logins", n)
		}
	},
	"R-11": wrongPasswords,
	"R-12": func(b *bench) {
		got := map[int]int{}
		for range 14 {
			resp, _ := b.raw("GET", benchSystem, "")
			got[resp.StatusCode]++
		}
		if got[503] != 2 {
			b.t.Errorf("answers %v", got)
		}
		for resp, _ := b.raw("GET", benchSystem, ""); resp.StatusCode != 503; resp, _ = b.raw("GET", benchSystem, "") {
		}
		for range 6 { // the next one, which ends the session, is a seventh
			b.answers(200, "GET", benchSystem, "")
		}
	},
	"R-13": func(b *bench) {
		b.answers(400, "POST", benchReset, "")
		b.answers(415, "POST", benchReset, `{"ResetType": "On"}`, "Content-Type", "text/plain")
	},
	"R-14": func(b *bench) {
		if resp, _ := b.raw("GET", "/redfish/v1/Nothing", ""); resp.Header.Get("Content-Type") != "text/html" {
			b.t.Errorf("content type %s", resp.Header.Get("Content-Type"))
		}
		_, err := b.open("right-4711", benchSystem+"/x").PowerState(b.t.Context())
		if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "<title>") {
			b.t.Errorf("got %v, want one that tells status and text", err)
		}
	},
	"R-15": func(b *bench) {
		n := b.count("POST " + benchReset)
		b.ok("power on", b.client.PowerOn(b.t.Context()))
		if got := b.count("POST "+benchReset) - n; got != 1 {
			b.t.Errorf("asked %d times", got)
		}
	},
	"R-18": func(b *bench) {
		if info, err := b.client.Identify(b.t.Context()); err != nil || info.Firmware != "1.0" {
			b.t.Errorf("got %+v, %v", info, err)
		}
		if _, d := b.raw("GET", benchSystem, ""); d["Links"].(object)["ManagedBy"] != nil {
			b.t.Errorf("links %v", d["Links"])
		}
	},
	"R-21": func(b *bench) { b.answers(400, "GET", benchSystem+"/EthernetInterfaces", "") },
	"R-22": func(b *bench) {
		info, err := b.client.Identify(b.t.Context())
		if err != nil || info.Vendor != "Dell Inc." || info.Serial != "SN-1" {
			b.t.Errorf("got %+v, %v", info, err)
		}
	},
	"R-24": func(b *bench) {
		if _, d := b.raw("GET", "/redfish/v1/", ""); d["Registries"] == nil {
			b.t.Error("there are no registries")
		}
		if n := b.count("GET /redfish/v1/Registries"); n != 0 {
			b.t.Errorf("%d reads of the registries", n)
		}
	},
	"R-28": func(b *bench) {
		_, err := b.open("right-4711", "").PowerState(b.t.Context())
		if err == nil || !strings.Contains(err.Error(), "several systems") || !strings.Contains(err.Error(), benchSystem) {
			b.t.Errorf("got %v, want one that lists the systems", err)
		}
	},

	"V-09": func(b *bench) {
		b.ok("set boot device", b.client.SetBoot(b.t.Context(), bmc.Boot{Device: bmc.CDROM}))
		if got := b.boot()["BootSourceOverrideTarget"]; got != "UsbCd" {
			b.t.Errorf("target %v", got)
		}
	},

	"N-01": func(b *bench) { b.cards("52:54:00:be:55:01", "52:54:00:be:55:02") },
	"N-02": func(b *bench) {
		b.cards("52:54:00:be:55:01", "52:54:00:be:55:02")
		if _, d := b.raw("GET", benchSystem+"/EthernetInterfaces/NIC1", ""); d["MACAddress"] != "52-54-00-BE-55-01" {
			b.t.Errorf("address %v", d["MACAddress"])
		}
	},
	"N-04": func(b *bench) { b.cards() },
	"N-05": func(b *bench) {
		if info, err := b.client.Identify(b.t.Context()); err != nil || info.Serial != "SN-1" {
			b.t.Errorf("got %+v, %v", info, err)
		}
		if _, d := b.raw("GET", benchSystem, ""); d["SerialNumber"] == "SN-1" {
			b.t.Error("shows the right serial number")
		}
	},
}
