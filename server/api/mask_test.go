package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bessemer/server/auth"
	"bessemer/store"
)

func TestMaskBag(t *testing.T) {
	in := map[string]any{
		"redfish_address": "https://bmc", "redfish_password": "c", "ipmi_hex_kg_key": "c", "snmp_community": "c", "vendor_key": "c",
		"nested":       map[string]any{"password": "c", "list": []any{map[string]any{"secret": "c"}, "x"}},
		"image_source": "http://user:c@h/i?x=1", "configdrive": map[string]any{"user_data": "c"}, "pin_password": 1234.0,
		"agent_token_required": true, "empty_password": "", "null_password": nil, "force_persistent_boot_device": "Default",
	}
	want := map[string]any{
		"redfish_address": "https://bmc", "redfish_password": masked, "ipmi_hex_kg_key": masked, "snmp_community": masked, "vendor_key": masked,
		"nested":       map[string]any{"password": masked, "list": []any{map[string]any{"secret": masked}, "x"}},
		"image_source": "http://user:" + masked + "@h/i?x=1", "configdrive": masked, "pin_password": masked,
		"agent_token_required": true, "empty_password": "", "null_password": nil, "force_persistent_boot_device": "Default",
	}
	got := maskBag(in, map[string]bool{"vendor_key": true})
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if in["redfish_password"] != "c" {
		t.Error("the original was changed")
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://h/x":                             "http://h/x",
		"http://user@h/x":                        "http://user@h/x",
		"http://u:p@h/x":                         "http://u:******@h/x",
		"get http://u:p@h/x: no, http://:q@i/ y": "get http://u:******@h/x: no, http://:******@i/ y",
		"http://h:80/a@b":                        "http://h:80/a@b",
		"a@b://c":                                "a@b://c",
	} {
		if got := maskURL(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// A client that sends back what it read does not turn secrets into asterisks.
func TestMaskedValuesMayBeSentBack(t *testing.T) {
	g := newRig(t, auth.None)
	id := g.must(201, "1.82", "POST", "/v1/nodes", `{"driver":"redfish","driver_info":{"redfish_password":"keep","redfish_username":"u"},"instance_info":{"image_source":"http://u:pw@h/x"}}`).object()["uuid"].(string)
	g.must(200, "1.82", "PATCH", "/v1/nodes/"+id, `[{"op":"add","path":"/driver_info","value":{"redfish_password":"******","redfish_username":"v"}},{"op":"replace","path":"/instance_info/image_source","value":"http://u:******@h/x"}]`)
	n := g.get(id)
	if n.DriverInfo["redfish_password"] != "keep" || n.DriverInfo["redfish_username"] != "v" || n.InstanceInfo["image_source"] != "http://u:pw@h/x" {
		t.Errorf("kept %v, %v", n.DriverInfo, n.InstanceInfo)
	}
	a := g.ask("1.82", "PATCH", "/v1/nodes/"+id, `[{"op":"add","path":"/driver_info/other_password","value":"******"}]`)
	if a.code != 400 {
		t.Errorf("a mask for nothing: got %d %s", a.code, a.body)
	}
}

// TestCanary plants a secret wherever one may be and calls every route with
// every method, as admin and as reader: none may tell it, nor may the log or
// the recorded messages.
func TestCanary(t *testing.T) {
	const canary = "CANARY-a1b2c3"
	g := newRig(t, auth.Basic)
	id := g.must(201, "1.82", "POST", "/v1/nodes", fmt.Sprintf(`{"driver":"redfish","name":"n1","driver_info":{"redfish_address":"https://bmc.example","redfish_password":%q},
		"instance_info":{"image_source":"http://u:%[1]s@h.example/i","configdrive":%[1]q,"image_url":%[1]q}}`, canary)).object()["uuid"].(string)
	port := g.must(201, "1.82", "POST", "/v1/ports", `{"address":"aa:bb:cc:00:00:01","node_uuid":"`+id+`"}`).object()["uuid"].(string)
	g.set(id, func(n *store.Node) {
		n.DriverInternalInfo = map[string]any{"agent_secret_token": canary, "x": map[string]any{"password": canary}}
		n.Agent = store.Agent{Token: canary, CA: "pem"}
		n.LastError = "fetch http://u:" + canary + "@h.example/i: 404"
		n.ProvisionState = store.DeployWait
	})
	g.run(store.Run{
		ID: 1, Trace: store.NewTrace(), Workflow: "deploy", Node: id, Outcome: store.Running, Started: time.Now(),
		Args: map[string]any{"configdrive": canary}, Data: map[string]any{"token": canary}, Ramdisk: &store.RamdiskBoot{Token: canary}, Stack: canary,
	})
	bodies := map[string][]string{
		"POST":   {`{}`, `{"id":"x"}`},
		"PUT":    {`{}`, `{"target":"active"}`, `{"boot_device":"pxe"}`, `{"reason":"x"}`},
		"PATCH":  {`[]`, `[{"op":"add","path":"/driver_info/redfish_password","value":"` + canary + `"}]`, `[{"op":"add","path":"/driver_info/` + "x" + `_password/y","value":"` + canary + `"}]`, `[{"op":"replace","path":"/instance_info/nosuch","value":"` + canary + `"}]`, `[{"op":"replace","path":"/driver_info","value":"` + canary + `"}]`},
		"DELETE": {``}, "GET": {``},
	}
	fill := strings.NewReplacer("{node}", id, "{port}", port, "{driver}", "redfish", "{run}", "1", "{trace}", "1", "{trait}", "CUSTOM_A", "{vif}", "v", "{host}", "refhost", "{image}", "i", "{user}", "nobody", "{mac}", "aa:bb:cc:00:00:02", "{method}", "m")
	tell := func(what, text string) {
		if strings.Contains(text, canary) {
			t.Errorf("%s tells the secret: %.300s", what, text)
		}
	}
	all := []struct {
		url    string
		routes []route
	}{{g.url, append(ironicRoutes(), ownRoutes()...)}, {g.prov, ramdiskRoutes()}}
	for _, user := range []string{"admin", "reader"} {
		for _, l := range all {
			for _, rt := range l.routes {
				if rt.path == "/api/v1/events" || rt.path == "/api/v1/backup" || rt.method == "DELETE" && strings.HasSuffix(rt.path, "{node}") || rt.method == "DELETE" && strings.HasSuffix(rt.path, "{port}") {
					continue
				}
				paths := []string{fill.Replace(rt.path)}
				if rt.method == "GET" {
					for _, q := range []string{"?fields=driver_info", "?fields=uuid,driver_internal_info", "?fields=instance_info,last_error", "?detail=true", "?format=text", "?addresses=aa:bb:cc:00:00:01"} {
						paths = append(paths, paths[0]+q)
					}
				}
				for _, path := range paths {
					for _, body := range bodies[rt.method] {
						req, _ := http.NewRequestWithContext(t.Context(), rt.method, l.url+path, strings.NewReader(body))
						req.Header.Set(versionHeader, "1.82")
						req.SetBasicAuth(user, map[string]string{"admin": adminPassword, "reader": readerPassword}[user])
						a := g.send(req)
						tell(fmt.Sprintf("%s %s %s as %s", rt.method, path, body, user), a.body+fmt.Sprint(a.header))
						if strings.Contains(path, "lookup") && strings.Contains(path, "addresses") && a.code != 200 {
							t.Errorf("%s: got %d %s", path, a.code, a.body)
						}
					}
				}
			}
		}
	}
	tell("the log", g.log.String())
	ms, err := g.db.MessagesAfter(0, 0, nil)
	if err != nil || len(ms) == 0 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	tell("a message", fmt.Sprintf("%+v", ms))
	tell("the event stream", g.events(t, "?after=0", len(ms)))
	var leaked strings.Builder
	if err := g.db.Backup(&leaked); err != nil {
		t.Fatal(err)
	}
	tell("the backup", leaked.String())
}

// events reads n events from the stream.
func (g *rig) events(t *testing.T, query string, n int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", g.url+"/api/v1/events"+query, nil)
	req.SetBasicAuth("admin", adminPassword)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("events: %d %s", resp.StatusCode, raw)
	}
	var b strings.Builder
	buf := make([]byte, 64<<10)
	for strings.Count(b.String(), "\nid: ") < n {
		k, err := resp.Body.Read(buf)
		b.Write(buf[:k])
		if err != nil {
			t.Fatalf("after %d events: %v", strings.Count(b.String(), "\nid: "), err)
		}
	}
	return b.String()
}
