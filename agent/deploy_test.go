package agent

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"bessemer/agent/fetch"
	"bessemer/agent/wire"
)

// The whole of a direct deploy, in the order in which Ironic does it.
func TestDeploy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.early = 2
	r.start()
	if got := r.server.lookups[0].URL.Query().Get("addresses"); got != "52:54:00:aa:bb:cc,52:54:00:aa:bb:cd" {
		t.Errorf("looked up %q", got)
	}
	if v := r.server.lookups[0].Header.Get(wire.VersionHeader); v != "1.62" {
		t.Errorf("lookup with version %q, want 1.62", v)
	}
	if v := r.server.headers[0].Get(wire.VersionHeader); v != "1.68" {
		t.Errorf("heartbeat with version %q, want 1.68", v)
	}
	if r.first.AgentToken != testToken || !strings.HasPrefix(r.first.CallbackURL, "https://127.0.0.1:") || r.first.AgentVersion != "1.0" {
		t.Errorf("heartbeat %+v", r.first)
	}

	c := r.command("deploy.get_deploy_steps", map[string]any{"node": r.server.node, "ports": []any{}}, true)
	if steps, _ := json.Marshal(c.Result); c.Status != wire.Succeeded || !strings.Contains(string(steps), `"step":"write_image"`) ||
		!strings.Contains(string(steps), `"generic_hardware_manager":"1.2"`) {
		t.Fatalf("get_deploy_steps: %+v", c)
	}

	img, iso := makeImage(t, debianESP), configISO(380<<10)
	file := zst(img)
	c = r.writeImage(map[string]any{"image_info": imageInfo(r.server.put("img.zst", file), file), "configdrive": packDrive(iso)}, r.server.node)
	if c.Status != wire.Succeeded || c.Name != "execute_deploy_step" {
		t.Fatalf("write_image: %+v %+v", c, c.Error)
	}
	step := c.Result["deploy_step"].(map[string]any)
	if step["step"] != "write_image" || step["interface"] != "deploy" || step["priority"] != 80.0 || step["args"] != nil {
		t.Errorf("deploy_step %v, want the step without its arguments", step)
	}
	if said := c.Result["deploy_result"].(string); !strings.Contains(said, "/dev/sda") || !strings.Contains(said, "config drive on partition 3") {
		t.Errorf("deploy_result %q", said)
	}
	checkImage := func() {
		got := r.diskBytes("/dev/sda", 0, len(img))
		if !bytes.Equal(got[:512], img[:512]) || !bytes.Equal(got[2048*512:7<<20], img[2048*512:7<<20]) {
			t.Error("the disk differs from the image")
		}
	}
	checkImage()

	c = r.command("standby.get_partition_uuids", nil, true)
	if c.Result["root uuid"] == "" || c.Result["efi system partition uuid"] == nil || len(c.Result["partitions"].(map[string]any)) != 3 {
		t.Errorf("get_partition_uuids: %v", c.Result)
	}
	boot := map[string]any{"root_uuid": c.Result["root uuid"], "efi_system_part_uuid": nil, "prep_boot_part_uuid": nil, "target_boot_mode": "uefi"}
	for range 2 { // a second time makes no second entry
		if c = r.run("image.install_bootloader", boot); c.Status != wire.Succeeded {
			t.Fatalf("install_bootloader: %+v", c.Error)
		}
	}
	entries, _ := r.machine.Firmware.Entries()
	if len(entries) != 1 || entries[0].Label != "debian" || entries[0].Loader != `\EFI\debian\shimx64.efi` {
		t.Errorf("boot entries %+v, want one for debian's shim", entries)
	}
	checkImage()

	r.command("standby.sync", nil, true)
	if c = r.command("standby.power_off", nil, false); c.Error != nil {
		t.Errorf("power_off: %+v", c.Error)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("agent ended with %v, want nil after a power off", err)
	}
	r.ended <- nil
	if a := r.machine.Actions(); a[len(a)-1] != "power off" || a[len(a)-2] != "sync" {
		t.Errorf("the machine saw %q, want a sync and the power off at last", a)
	}
	for _, want := range []string{"does not know this machine", "node " + nodeUUID, "root device /dev/sda: the smallest", "deploy.execute_deploy_step done", "power off"} {
		if !strings.Contains(r.console.String(), want) {
			t.Errorf("the console lacks %q:\n%s", want, r.console.String())
		}
	}
	if strings.Contains(r.console.String(), testToken) {
		t.Error("the console shows the token")
	}
}

// What a real Ironic sent is understood.
func TestMessagesOfARealIronic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	look := map[string]any{}
	load(t, "lookup.json", &look)
	r.server.node, r.server.config = look["node"].(map[string]any), look["config"].(map[string]any)
	r.start()
	var req wire.CommandRequest
	load(t, "get_deploy_steps.json", &req)
	if c := r.command(req.Name, req.Params, true); c.Status != wire.Succeeded {
		t.Fatalf("get_deploy_steps: %+v", c.Error)
	}
	load(t, "write_image.json", &req)
	img := makeImage(t, debianESP)
	info := req.Params["step"].(map[string]any)["args"].(map[string]any)["image_info"].(map[string]any)
	for _, k := range []string{"urls", "checksum", "configdrive"} {
		if info[k] == nil {
			t.Fatalf("the captured image_info has no %s", k)
		}
	}
	info["urls"], info["checksum"] = []string{r.server.put("img.qcow2", img)}, hexSum(img)
	c := r.run(req.Name, req.Params)
	if c.Status != wire.Succeeded || !strings.Contains(c.Result["deploy_result"].(string), "config drive on partition 3") {
		t.Fatalf("write_image: %+v %+v", c, c.Error)
	}
	drive := r.diskBytes("/dev/sda", 5<<30-2<<20, 2<<20)
	if !bytes.Contains(drive, []byte("CD001")) || !bytes.Contains(drive, []byte("config-2")) {
		t.Error("the captured config drive is not at the end of the disk")
	}
}

func load(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func TestWriteImageFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	img := makeImage(t, nil)
	file := zst(img)
	good := r.server.put("img.zst", file)
	r.server.put("SHA256SUMS", []byte("0123456789abcdef0123456789abcdef  other\n"))
	huge := zst(make([]byte, 16<<20))
	r.server.put("cut.zst", file[:len(file)/2])
	no := func(info map[string]any, k string, v any) map[string]any { info[k] = v; return info }
	for _, tt := range []struct {
		name string
		args map[string]any
		node map[string]any
		says []string
	}{
		{"wrong checksum", map[string]any{"image_info": no(imageInfo(good, file), "os_hash_value", hexSum(img))}, nil, []string{"checksum mismatch", hexSum(file), hexSum(img)}},
		{"no checksum", map[string]any{"image_info": map[string]any{"urls": []string{good}}}, nil, []string{"checksum is not available"}},
		{"md5", map[string]any{"image_info": map[string]any{"urls": []string{good}, "checksum": "d41d8cd98f00b204e9800998ecf8427e"}}, nil, []string{"MD5"}},
		{"checksum file without the image", map[string]any{"image_info": map[string]any{"urls": []string{good}, "checksum": r.server.URL + "/files/SHA256SUMS"}}, nil, []string{"does not name img.zst"}},
		{"cut short", map[string]any{"image_info": imageInfo(r.server.URL+"/files/cut.zst", file)}, nil, []string{"unpack .zst"}},
		{"not there", map[string]any{"image_info": imageInfo(r.server.URL+"/files/none", file)}, nil, []string{"404"}},
		{"file URL", map[string]any{"image_info": imageInfo("file:///etc/shadow", file)}, nil, []string{"scheme"}},
		{"link-local", map[string]any{"image_info": imageInfo("http://169.254.169.254/x", file)}, nil, []string{"link-local"}},
		{"no root device", map[string]any{"image_info": imageInfo(good, file)}, map[string]any{"properties": map[string]any{"root_device": map[string]any{"serial": "Z"}}}, []string{"no disk can be the root device", "/dev/sdb", "serial is B"}},
		{"bad hint", map[string]any{"image_info": imageInfo(good, file)}, map[string]any{"properties": map[string]any{"root_device": map[string]any{"size": "big"}}}, []string{"size", "not a number"}},
		{"claim", map[string]any{"image_info": no(imageInfo(good, file), "disk_format", "qcow2")}, nil, []string{"said to be qcow2"}},
		{"config drive is no base64", map[string]any{"image_info": imageInfo(good, file), "configdrive": "AAA?"}, nil, []string{"config drive"}},
		{"config drive at a refused URL", map[string]any{"image_info": imageInfo(good, file), "configdrive": "http://[::1]/x"}, nil, []string{"loopback"}},
		{"no urls", map[string]any{"image_info": map[string]any{"checksum": hexSum(file)}}, nil, []string{"urls"}},
		{"no image_info", map[string]any{}, nil, []string{"image_info"}},
		{"no partition table for a config drive", map[string]any{"image_info": imageInfo(r.server.put("zeros.zst", huge), huge), "configdrive": packDrive(configISO(40 << 10))}, nil, []string{"no partition table"}},
	} {
		if tt.node == nil {
			tt.node = map[string]any{"properties": map[string]any{}}
		}
		c := r.tryImage(tt.args, tt.node)
		if c.Status != wire.Failed || c.Error == nil || c.Result != nil {
			t.Errorf("%s: %+v, want a failure", tt.name, c)
			continue
		}
		for _, want := range tt.says {
			if !strings.Contains(c.Error.Details, want) {
				t.Errorf("%s: %q lacks %q", tt.name, c.Error.Details, want)
			}
		}
	}
	for _, name := range []string{"/dev/sdb", "/dev/sr0"} {
		if _, err := os.Stat(r.machine.Files[name]); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	// After all this the agent still works, and mirrors are tried in turn.
	info := imageInfo(good, file)
	info["urls"] = []string{r.server.URL + "/files/none", good}
	if c := r.tryImage(map[string]any{"image_info": info}, nil); c.Status != wire.Succeeded {
		t.Errorf("second mirror: %+v", c.Error)
	}
}

func TestImageLargerThanTheDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.machine.Hardware.Disks[0].Size = 4 << 30
	r.start()
	raw := make([]byte, 512)
	copy(raw[510:], "\x55\xaa")
	q := make([]byte, 1<<16+512)
	copy(q, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint32(q[20:], 16)
	binary.BigEndian.PutUint64(q[24:], 5<<30)
	binary.BigEndian.PutUint32(q[36:], 100)
	binary.BigEndian.PutUint64(q[40:], 1<<16)
	binary.BigEndian.PutUint32(q[100:], 104)
	c := r.writeImage(map[string]any{"image_info": imageInfo(r.server.put("big.qcow2", q), q)}, nil)
	if c.Error == nil || !strings.Contains(c.Error.Details, "/dev/sda") || !strings.Contains(c.Error.Details, "5.0 GiB") || !strings.Contains(c.Error.Details, "4.0 GiB") {
		t.Errorf("got %+v, want an error with the disk and both sizes", c.Error)
	}
}

// The agent's own address policy holds too (S-SSRF-01).
func TestPolicyInTheAgent(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	secret := httptest.NewUnstartedServer(http.NotFoundHandler())
	secret.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			hits.Add(1)
		}
	}
	secret.Start()
	defer secret.Close()
	r := newRig(t)
	r.config.Policy = fetch.Policy{}
	r.start()
	for _, u := range []string{secret.URL, strings.Replace(secret.URL, "127.0.0.1", "localhost", 1), strings.Replace(secret.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		for _, args := range []map[string]any{
			{"image_info": imageInfo(u+"/img", nil)},
			{"image_info": imageInfo("http://images.example/x", nil), "configdrive": u + "/cd"},
			{"image_info": map[string]any{"urls": []string{"http://images.example/x"}, "checksum": u + "/SUMS"}},
		} {
			if c := r.tryImage(args, nil); c.Error == nil || !strings.Contains(c.Error.Details, "loopback") {
				t.Errorf("%s: %+v, want a refusal", u, c.Error)
			}
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the internal listener had %d connections", n)
	}
}

// A file that was replaced while it was fetched gets a second try.
func TestSecondTryAfterAChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	img := makeImage(t, nil)
	r.server.change = func(nth int, b []byte) []byte {
		if nth > 1 {
			return b
		}
		b = bytes.Clone(b)
		b[1<<20] ^= 1
		return b
	}
	r.start()
	c := r.writeImage(map[string]any{"image_info": imageInfo(r.server.put("i", img), img)}, nil)
	if c.Status != wire.Succeeded || !strings.Contains(r.console.String(), "trying once more") {
		t.Errorf("got %+v, console %s", c.Error, r.console.String())
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	if n := len(r.server.requests); n != 3 {
		t.Errorf("%d requests, want two downloads and a look between them", n)
	}
}

// The same file has the same wrong checksum: it is not fetched again.
func TestNoSecondTryOfTheSameFile(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	img := makeImage(t, nil)
	info := imageInfo(r.server.put("i", img), img)
	info["os_hash_value"] = hexSum([]byte("another"))
	c := r.writeImage(map[string]any{"image_info": info}, nil)
	if c.Error == nil || !strings.Contains(c.Error.Details, hexSum(img)) || !strings.Contains(c.Error.Details, hexSum([]byte("another"))) {
		t.Errorf("got %+v, want a failure with both checksums", c.Error)
	}
	if strings.Contains(r.console.String(), "once more") {
		t.Error("the file was fetched a second time")
	}
}

func TestFormatThatTheServerDoesNotPermit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.config["permitted_image_formats"] = []string{"raw"}
	r.start()
	q := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 600)...)
	c := r.writeImage(map[string]any{"image_info": imageInfo(r.server.put("q", q), q)}, nil)
	if c.Error == nil || !strings.Contains(c.Error.Details, "permitted") {
		t.Errorf("got %+v, want a refusal", c.Error)
	}
}

func TestHintsOfTheInstanceComeFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t).start()
	img := makeImage(t, nil)
	file := zst(img)
	info := map[string]any{"image_info": imageInfo(r.server.put("i", file), file)}
	for _, node := range []map[string]any{
		{"properties": map[string]any{"root_device": map[string]any{"serial": "A"}}, "instance_info": map[string]any{"root_device": map[string]any{"serial": "B"}}},
		{"properties": map[string]any{"root_device": `{"serial": "B"}`}},
	} {
		c := r.writeImage(info, node)
		if c.Status != wire.Succeeded || !strings.Contains(fmt.Sprint(c.Result["deploy_result"]), "device /dev/sdb") {
			t.Errorf("got %v %+v, want /dev/sdb", c.Result, c.Error)
		}
	}
}

func TestConfigDriveForms(t *testing.T) {
	t.Parallel()
	iso := configISO(100 << 10)
	text := packDrive(iso)
	raw, _ := base64.StdEncoding.DecodeString(text)
	lines := strings.Join(strings.SplitAfter(text, text[40:60]), "\n")
	for name, b := range map[string][]byte{"base64": []byte(text), "base64 in lines": []byte(lines + "\n"), "gzip": raw, "image": iso} {
		if got, err := decodeConfigDrive(b); err != nil || !bytes.Equal(got, iso) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 65<<20))
	z.Close()
	if _, err := decodeConfigDrive(bomb.Bytes()); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("bomb: %v", err)
	}
	if _, err := decodeConfigDrive(raw[:len(raw)/2]); err == nil {
		t.Error("a cut config drive was taken")
	}
}

func TestChecksumFiles(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, tt := range []struct{ text, want string }{
		{a + "\n", a},
		{a + "  img.raw\n", a},
		{b + "  other\n" + a + " *img.raw\n", a},
		{b + "  x/img.raw.zst\n" + a + "  dir/img.raw\n", a},
		{"SHA256 (img.raw) = " + a + "\n", a},
		{"# comment\n\n" + a + "  img.raw", a},
		{a + "\n" + b + "\n", ""},
		{a + "  other\n", ""},
		{"<html>", ""},
		{"", ""},
	} {
		got, err := findChecksum(tt.text, "img.raw")
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: got %q, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}
