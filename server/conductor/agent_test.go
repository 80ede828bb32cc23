package conductor

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/agent/wire"
	"bessemer/pxe"
	"bessemer/store"
)

const testPeer = "192.0.2.7:40000"

// TestLookup: only a node that was started for the ramdisk is found, by its
// cards or UUID, and only the first lookup of a boot gets the token.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		addNode(t, w.db, "31111111-2222-4333-8444-555555555555", "41111111-2222-4333-8444-555555555555", "52:54:00:00:00:02", store.Active)
		ctx := t.Context()
		refused := func(when string, macs []string, uuid string) {
			t.Helper()
			_, err := w.Lookup(ctx, macs, uuid, testPeer, true)
			if !errors.Is(err, ErrNotFound) || err.Error() != "not found: no node awaits this machine" {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("idle node", []string{testMAC}, "")
		w.provision("active")
		w.after(time.Second)
		refused("no card", nil, "")
		refused("unknown card", []string{"52:54:00:00:00:99", "garbage", ""}, "")
		refused("unknown UUID", nil, "nobody")
		refused("active node", []string{"52:54:00:00:00:02"}, "")
		refused("cards of two nodes", []string{testMAC, "52:54:00:00:00:02"}, "")

		old, err := w.Lookup(ctx, []string{testMAC}, "", testPeer, false)
		if err != nil || old.Config.AgentToken != maskedToken {
			t.Errorf("lookup that wants no token: %q (%v)", old.Config.AgentToken, err)
		}
		l, err := w.Lookup(ctx, []string{"00:00:00:00:00:07", strings.ToUpper(testMAC)}, "", testPeer, true)
		if err != nil || len(l.Config.AgentToken) != 43 || l.Node.UUID != testNode || !l.Config.AgentTokenRequired || l.Config.HeartbeatTimeout != 300 {
			t.Fatalf("lookup: %+v (%v)", l, err)
		}
		second, err := w.Lookup(ctx, nil, testNode, "192.0.2.66:1", true)
		if err != nil || second.Config.AgentToken != maskedToken {
			t.Errorf("second lookup: %q (%v)", second.Config.AgentToken, err)
		}
	})
}

// TestLookupShowsNoSecrets of a node's bags.
func TestLookupShowsNoSecrets(t *testing.T) {
	v := lookupView(&store.Node{
		DriverInfo:   map[string]any{"redfish_password": "canary"},
		InstanceInfo: map[string]any{"configdrive": "canary", "image_url": "canary", "image_source": "debian"},
	})
	if v.InstanceInfo["configdrive"] != "******" || v.InstanceInfo["image_url"] != "******" || v.InstanceInfo["image_source"] != "debian" {
		t.Errorf("instance_info is shown as %v", v.InstanceInfo)
	}
}

// TestHeartbeat: forged ones are refused and change nothing.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t, func(c *Config) { c.PlainAgents = false })
		w.m.mute = true
		w.enroll(store.Available)
		ctx := t.Context()
		beat := func(peer, callback, token, ca string) error {
			return w.Heartbeat(ctx, testNode, peer, wire.Heartbeat{CallbackURL: callback, AgentToken: token, AgentVerifyCA: ca})
		}
		const good = "https://192.0.2.7:9999"
		if err := beat(testPeer, good, "T", ""); !errors.Is(err, ErrBadAgent) {
			t.Errorf("idle node: %v", err)
		}
		w.provision("active")
		w.after(time.Second)
		if err := beat(testPeer, good, "T", ""); !errors.Is(err, ErrBadAgent) {
			t.Errorf("before lookup: %v", err)
		}
		l, err := w.Lookup(ctx, []string{testMAC}, "", testPeer, true)
		if err != nil {
			t.Fatal(err)
		}
		token := l.Config.AgentToken
		for _, tt := range []struct {
			name, peer, callback, token, ca string
			want                            error
		}{
			{"no token", testPeer, good, "", "", ErrBadAgent},
			{"wrong token", testPeer, good, strings.Repeat("x", 43), "", ErrBadAgent},
			{"masked token", testPeer, good, maskedToken, "", ErrBadAgent},
			{"plain http", testPeer, "http://192.0.2.7:9999", token, "", ErrInvalid},
			{"metadata service", testPeer, "https://169.254.169.254:9999", token, "", ErrInvalid},
			{"loopback", testPeer, "https://127.0.0.1:6385", token, "", ErrInvalid},
			{"name", testPeer, "https://evil.example:9999", token, "", ErrInvalid},
			{"other scheme", testPeer, "gopher+http://192.0.2.7:9999", token, "", ErrInvalid},
			{"privileged port", testPeer, "https://192.0.2.7:22", token, "", ErrInvalid},
			{"no port", testPeer, "https://192.0.2.7", token, "", ErrInvalid},
			{"user", testPeer, "https://a:b@192.0.2.7:9999", token, "", ErrInvalid},
			{"path", testPeer, "https://192.0.2.7:9999/x?y", token, "", ErrInvalid},
			{"not a URL", testPeer, "::", token, "", ErrInvalid},
			{"bad certificate", testPeer, good, token, "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n", ErrInvalid},
			{"no certificate", testPeer, good, token, "hello", ErrInvalid},
			{"huge certificate", testPeer, good, token, strings.Repeat("x", 1<<20), ErrInvalid},
		} {
			if err := beat(tt.peer, tt.callback, tt.token, tt.ca); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", tt.name, err)
			} else if strings.Contains(err.Error(), token) {
				t.Errorf("%s: the token is in the error", tt.name)
			}
		}
		if a := w.get().Agent; a.URL != "" || !a.LastHeartbeat.IsZero() {
			t.Fatalf("a refused heartbeat left %+v", a)
		}
		if err := w.Heartbeat(ctx, "nobody", testPeer, wire.Heartbeat{CallbackURL: good, AgentToken: token}); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown node: %v", err)
		}
		w.stop()
		if err := beat("[::ffff:192.0.2.7]:1234", good, token, ""); err != nil {
			t.Fatal(err)
		}
		if err := beat(testPeer, "https://192.0.2.7:9998", token, ""); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "detected change") {
			t.Errorf("changed URL: %v", err)
		}
	})
}

// TestAStaleAgentIsRefused: the token of one boot is worth nothing in the
// next, nor after the run.
func TestAStaleAgentIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		w.provision("active")
		w.after(time.Second)
		l, err := w.Lookup(t.Context(), []string{testMAC}, "", testPeer, true)
		if err != nil {
			t.Fatal(err)
		}
		stale := wire.Heartbeat{CallbackURL: "http://192.0.2.7:9999", AgentToken: l.Config.AgentToken}
		w.after(2 * time.Minute) // started anew, since it did not call
		if err := w.Heartbeat(t.Context(), testNode, testPeer, stale); !errors.Is(err, ErrBadAgent) {
			t.Errorf("in the next boot: %v", err)
		}
		w.provision("abort")
		w.after(time.Minute)
		if err := w.Heartbeat(t.Context(), testNode, testPeer, stale); !errors.Is(err, ErrBadAgent) {
			t.Errorf("after the run: %v", err)
		}
		if _, err := w.Lookup(t.Context(), []string{testMAC}, "", testPeer, true); !errors.Is(err, ErrNotFound) {
			t.Errorf("lookup after the run: %v", err)
		}
	})
}

// TestBoot: what the boot servers are told, and that a token opens only its
// run's files.
func TestBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		w.enroll(store.Available)
		ctx := t.Context()
		mac := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
		boot := func() pxe.Boot { return w.Boot(ctx, pxe.Machine{MAC: mac, What: "boot script"}) }
		if b := boot(); b.Action != pxe.Local || b.Node != testNode || b.Token != "" {
			t.Errorf("idle node: %+v", b)
		}
		if b := w.Boot(ctx, pxe.Machine{}); b.Action != pxe.Retry {
			t.Errorf("machine without a MAC: %+v", b)
		}
		w.provision("active")
		w.after(time.Second)
		b := boot()
		if b.Action != pxe.Ramdisk || len(b.Token) < 32 || b.Run == 0 || b.Trace == "" {
			t.Fatalf("node being deployed: %+v", b)
		}
		f, err := w.File(ctx, b.Token, pxe.FileImage)
		if err != nil || f.Size != int64(len(testImage)) || f.Node != testNode || f.Run != b.Run {
			t.Fatalf("image: %+v (%v)", f, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for _, tt := range [][2]string{{b.Token, "configdrive"}, {b.Token, "../bessemer.db"}, {"", "image"}, {"x", "image"}} {
			if _, err := w.File(ctx, tt[0], tt[1]); !errors.Is(err, pxe.ErrNoFile) {
				t.Errorf("file %q: %v", tt[1], err)
			}
		}
		w.provision("abort")
		w.after(time.Second)
		if now := boot(); now.Action != pxe.Local {
			t.Errorf("after the abort: %+v", now)
		}
		if _, err := w.File(ctx, b.Token, pxe.FileImage); !errors.Is(err, pxe.ErrNoFile) {
			t.Errorf("image after the run: %v", err)
		}
	})
}

func TestDiscovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newQuietWorld(t)
		mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
		seen := func() (all []store.Discovered) {
			time.Sleep(2 * discoveryInterval)
			synctest.Wait()
			err := w.db.View(func(tx *store.Tx) error {
				all = nil
				for d, err := range store.DiscoveredMachines.All(tx) {
					if err != nil {
						return err
					}
					all = append(all, *d)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		w.Boot(t.Context(), pxe.Machine{MAC: mac, Arch: pxe.X64, VendorClass: "PXEClient\n", What: "DHCP DISCOVER"})
		w.Boot(t.Context(), pxe.Machine{MAC: mac, Arch: pxe.NoArch, IP: net.IPv4(192, 0, 2, 9), What: "boot script"})
		first := seen()
		if len(first) != 1 || first[0].MAC != mac.String() || first[0].Arch != "x64-uefi" || first[0].Count != 2 ||
			first[0].LastWhat != "boot script" || first[0].VendorClass != "PXEClient" || first[0].IP != "192.0.2.9" {
			t.Fatalf("discovered: %+v", first)
		}
		w.Boot(t.Context(), pxe.Machine{MAC: mac, Arch: pxe.NoArch, What: "boot script"})
		again := seen()
		if len(again) != 1 || again[0].Count != 3 || again[0].Arch != "x64-uefi" || !again[0].FirstSeen.Equal(first[0].FirstSeen) {
			t.Errorf("discovered: %+v", again)
		}
		addNode(t, w.db, testNode, testPort, mac.String(), store.Enroll)
		w.NodeChanged(testNode)
		if left := seen(); len(left) != 0 {
			t.Errorf("a machine that is a node's is still discovered: %+v", left)
		}
		for i := range 2 * maxDiscovered {
			w.Boot(t.Context(), pxe.Machine{MAC: net.HardwareAddr{2, 1, byte(i >> 16), byte(i >> 8), byte(i), 0}, What: "DHCP DISCOVER"})
		}
		if n := len(seen()); n > maxDiscovered {
			t.Errorf("%d machines are kept", n)
		}
	})
}

func TestCapabilities(t *testing.T) {
	for _, tt := range []struct {
		node, instance any
		want           string
		bad            bool
	}{
		{nil, nil, "", false},
		{"boot_mode:uefi,disk_label:gpt", nil, "uefi", false},
		{"boot_mode: bios ,", nil, "bios", false},
		{"boot_mode:uefi", map[string]any{"boot_mode": "bios"}, "bios", false},
		{"boot_mode:uefi", `{"boot_mode": "bios"}`, "bios", false},
		{"boot_mode", nil, "", true},
		{"boot_mode:efi", nil, "efi", true},
		{nil, `{"boot_mode"`, "", true},
		{7, nil, "", true},
	} {
		n := &store.Node{Properties: map[string]any{"capabilities": tt.node}, InstanceInfo: map[string]any{"capabilities": tt.instance}}
		if got, err := bootMode(n), checkCapabilities(n); got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%v, %v: mode %q, %v", tt.node, tt.instance, got, err)
		}
	}
}

func TestRootDeviceHints(t *testing.T) {
	for _, tt := range []struct {
		key   string
		value any
		ok    bool
	}{
		{"size", 60.0, true},
		{"size", "60", true},
		{"size", ">= 60", true},
		{"size", "<or> 60 <or> 120", true},
		{"size", "60 GB", false},
		{"size", -1.0, false},
		{"size", 1.5, false},
		{"size", true, false},
		{"serial", "s== abc", true},
		{"serial", "", false},
		{"serial", 5.0, false},
		{"rotational", true, true},
		{"rotational", "False", true},
		{"rotational", "maybe", false},
		{"by_path", "/dev/disk/by-path/x", true},
		{"colour", "red", false},
	} {
		n := &store.Node{Properties: map[string]any{"root_device": map[string]any{tt.key: tt.value}}}
		if err := checkRootDevice(n); (err == nil) != tt.ok {
			t.Errorf("%s = %v: %v", tt.key, tt.value, err)
		}
	}
	if err := checkRootDevice(&store.Node{Properties: map[string]any{"root_device": "sda"}}); err == nil {
		t.Error("hints that are no object were taken")
	}
}

func TestMetaData(t *testing.T) {
	n := &store.Node{UUID: "u", Name: "n1", InstanceName: "web"}
	m := metaData(n, nil)
	if m["uuid"] != "u" || m["name"] != "web" || m["hostname"] != "web" {
		t.Errorf("without data: %v", m)
	}
	m = metaData(n, map[string]any{"uuid": "i", "hostname": "h", "public_keys": map[string]any{"k": "ssh-rsa x"}})
	if m["uuid"] != "i" || m["hostname"] != "h" || m["public_keys"] == nil {
		t.Errorf("with data: %v", m)
	}
	if got := slices.Collect(func(yield func(string) bool) {
		files, err := driveFiles(n, []byte(`{"user_data":{"a":1},"network_data":{},"vendor_data":{"v":1}}`))
		if err != nil {
			t.Error(err)
		}
		for _, p := range []string{"meta_data.json", "network_data.json", "user_data", "vendor_data2.json"} {
			if files["openstack/latest/"+p] == nil || !yield(p) {
				return
			}
		}
	}); len(got) != 4 {
		t.Errorf("only %v are there", got)
	}
}
