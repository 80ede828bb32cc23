package cli

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestFlagsFirst(t *testing.T) {
	app := newApp(nil, io.Discard, io.Discard)
	tests := []struct{ in, want string }{
		{"bessemer node deploy n1 --wait", "bessemer node deploy --wait n1"},
		{"bessemer node deploy n1 --wait --timeout 5m", "bessemer node deploy --wait --timeout 5m n1"},
		{"bessemer node list -o json", "bessemer -o json node list"},
		{"bessemer node -o json list --state active", "bessemer -o json node list --state active"},
		{"bessemer -o json node show n1", "bessemer -o json node show n1"},
		{"bessemer node set n1 --name=x --extra a=b", "bessemer node set --name=x --extra a=b n1"},
		{"bessemer node maintenance on n1 --reason why", "bessemer node maintenance --reason why on n1"},
		{"bessemer node show -- --odd", "bessemer node show -- --odd"},
		{"bessemer backup -", "bessemer backup -"},
		{"bessemer serve --api-listen 127.0.0.1:1 --url x", "bessemer --url x serve --api-listen 127.0.0.1:1"},
		{"bessemer node trace n1 -f", "bessemer node trace -f n1"},
		{"bessemer --help", "bessemer --help"},
		{"bessemer help", "bessemer help"},
		{"bessemer help node deploy", "bessemer node deploy --help"},
		{"bessemer node deploy --im --generate-bash-completion", "bessemer node deploy --im --generate-bash-completion"},
		{"bessemer", "bessemer"},
		{"bessemer nosuch thing", "bessemer nosuch thing"},
	}
	for _, tt := range tests {
		got := flagsFirst(app, strings.Fields(tt.in))
		if !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%s\n got %s\nwant %s", tt.in, strings.Join(got, " "), tt.want)
		}
	}
}

func TestImageName(t *testing.T) {
	for in, want := range map[string]string{
		"/srv/debian12.raw.zst": "debian12", "https://x/os.qcow2?sig=1": "os", "tiny.raw": "tiny", ".raw": ".raw", "a/b/plain": "plain",
	} {
		if got := imageName(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestPrintableHidesTerminalCodes(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "": "-", "\x1b[2Jgone": "�[2Jgone", "a\nb": "a�b", "\u202eevil": "�evil", "grün": "grün",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestKeyValues(t *testing.T) {
	m, err := keyValues("driver-info", []string{"a=1234", "b={\"x\":[1]}", "c=true", "d=x=y"})
	if err != nil {
		t.Fatal(err)
	}
	if m["a"] != "1234" || m["c"] != true || m["d"] != "x=y" {
		t.Errorf("got %v", m)
	}
	for _, bad := range []string{"novalue", "=x", "j={"} {
		if _, err := keyValues("extra", []string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
