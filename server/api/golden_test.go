package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden sends the requests of testdata/*.txtar in order and compares the
// answers. A request's name is its method, path and microversion ("-" for
// none); "ramdisk" before them sends it to the provisioning listener. UUIDs,
// times and addresses are replaced by names that are the same in each run.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ar := txtar.Parse(raw)
	g := newRig(t, "none")
	names := &namer{rig: g, ids: map[string]string{}}
	var out txtar.Archive
	out.Comment = ar.Comment
	for _, f := range ar.Files {
		if f.Name == "response" {
			continue
		}
		got := names.request(f.Name, string(f.Data))
		out.Files = append(out.Files, f, txtar.File{Name: "response", Data: []byte(got)})
	}
	got := txtar.Format(&out)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(raw), string(got)); d != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", file, d)
	}
}

// A namer gives names to what differs from run to run.
type namer struct {
	rig *rig
	ids map[string]string // UUID → name
}

func (n *namer) request(line, body string) string {
	f := strings.Fields(n.real(line))
	send := n.rig.ask
	if f[0] == "ramdisk" {
		f = f[1:]
		send = func(v, method, path, body string, _ ...string) answer { return n.rig.ramdisk(v, method, path, body) }
	}
	if len(f) == 3 && f[2] == "-" {
		f[2] = ""
	}
	a := send(f[2], f[0], f[1], n.real(body))
	var b strings.Builder
	fmt.Fprintln(&b, a.code)
	for _, k := range []string{"Location", "Allow", "Content-Type", "X-Openstack-Ironic-Api-Version", "Retry-After"} {
		if v := a.header.Get(k); v != "" {
			fmt.Fprintf(&b, "%s: %s\n", k, v)
		}
	}
	if a.body != "" {
		var pretty bytes.Buffer
		if json.Indent(&pretty, []byte(a.body), "", " ") != nil {
			pretty.Reset()
			pretty.WriteString(a.body)
		}
		b.WriteString(pretty.String() + "\n")
	}
	return n.named(b.String())
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	times = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00`)
)

func (n *namer) named(s string) string {
	s = strings.ReplaceAll(s, n.rig.url, "http://api")
	s = strings.ReplaceAll(s, n.rig.prov, "http://provisioning")
	s = times.ReplaceAllString(s, "TIME")
	return uuids.ReplaceAllStringFunc(s, func(id string) string {
		if n.ids[id] == "" {
			n.ids[id] = fmt.Sprintf("UUID-%d", len(n.ids)+1)
		}
		return n.ids[id]
	})
}

var nameRef = regexp.MustCompile(`UUID-\d+`)

func (n *namer) real(s string) string {
	return nameRef.ReplaceAllStringFunc(s, func(name string) string {
		for id, v := range n.ids {
			if v == name {
				return id
			}
		}
		return name
	})
}
