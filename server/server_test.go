package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/configs"
	"bessemer/server/auth"
)

func testServer(t *testing.T, log io.Writer, change func(*configs.Config)) *Server {
	t.Helper()
	c := configs.Default()
	c.DataDir, c.API.Listen = t.TempDir(), "127.0.0.1:0"
	change(&c)
	s, err := Open(t.Context(), Options{
		Config: c, Types: bmc.Types{"fake-hardware": fake.Type()}, Version: "test", Log: zerolog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serving runs a server until the test ends.
func serving(t *testing.T, s *Server) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestWarnsOfPasswordsInTheClear(t *testing.T) {
	tests := []struct {
		listen string
		warns  bool
	}{{"127.0.0.1:0", false}, {"localhost:0", false}, {"0.0.0.0:0", true}, {":0", true}}
	for _, tt := range tests {
		var log bytes.Buffer
		s := testServer(t, &log, func(c *configs.Config) { c.API.Listen = tt.listen })
		defer s.close()
		for where, text := range map[string]string{"banner": s.Banner(), "log": log.String()} {
			if got := strings.Contains(text, "in the clear"); got != tt.warns {
				t.Errorf("%s, %s: warned %v, want %v:\n%s", tt.listen, where, got, tt.warns, text)
			}
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	tests := []struct{ listen, want string }{
		{"127.0.0.1:6385", "127.0.0.1:6385"},
		{"0.0.0.0:6385", "0.0.0.0:6385"},
		{":6385", "[::]:6385"},
		{"localhost:6385", "127.0.0.1:6385"},
		{"[::]:6385", "[::]:6385"},
	}
	for _, tt := range tests {
		s := &Server{Options: Options{Config: configs.Config{API: configs.API{Listen: tt.listen}}}}
		if diff := cmp.Diff([]string{tt.want}, texts(s.ownAddresses())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.listen, diff)
		}
	}
}

func texts(as []netip.AddrPort) (out []string) {
	for _, a := range as {
		out = append(out, a.String())
	}
	return out
}

// An event stream must not hold up the end.
func TestStopsUnderAnOpenStream(t *testing.T) {
	s := testServer(t, io.Discard, func(*configs.Config) {})
	serving(t, s)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.listeners[0].Address+"/api/v1/events", nil)
	secret, err := os.ReadFile(filepath.Join(s.Config.Dir(), auth.SecretFile))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("admin", strings.TrimSpace(string(secret)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() }) // after the server has ended
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("events: got %s", resp.Status)
	}
}

func TestReportsBadCertificateAtOnce(t *testing.T) {
	c := configs.Default()
	c.DataDir, c.API.Listen, c.API.TLSCert, c.API.TLSKey = t.TempDir(), "127.0.0.1:0", "/nonexistent.crt", "/nonexistent.key"
	_, err := Open(t.Context(), Options{Config: c, Log: zerolog.Nop()})
	if err == nil || !strings.Contains(err.Error(), "api.tls_cert") {
		t.Errorf("got %v", err)
	}
}
