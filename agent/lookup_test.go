package agent

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bessemer/agent/wire"
)

func TestNoToken(t *testing.T) {
	for _, token := range []string{"******", "", "short"} {
		r := newRig(t)
		r.server.config["agent_token"] = token
		if err := Run(t.Context(), r.config, r.machine); !errors.Is(err, errNoToken) {
			t.Errorf("token %q: %v, want errNoToken", token, err)
		}
	}
}

func TestOwnToken(t *testing.T) {
	r := newRig(t)
	r.config.Token = strings.Repeat("t", 43)
	r.config.NodeUUID = nodeUUID
	r.server.config["agent_token"] = "******"
	r.start()
	if r.first.AgentToken != r.config.Token {
		t.Errorf("heartbeat with token %q, want our own", r.first.AgentToken)
	}
	if got := r.server.lookups[0].URL.Query().Get("node_uuid"); got != nodeUUID {
		t.Errorf("lookup with node_uuid %q", got)
	}
}

func TestLookupTimeout(t *testing.T) {
	r := newRig(t)
	r.server.early = 1000
	r.config.LookupTimeout = 50 * time.Millisecond
	err := Run(t.Context(), r.config, r.machine)
	if err == nil || !strings.Contains(err.Error(), "gave up") || !strings.Contains(err.Error(), "does not know this machine") {
		t.Errorf("got %v", err)
	}
}

func TestHeartbeatsRetryWhenTheNodeIsLocked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.beats = 1
	r.start()
	if n := len(r.server.got); n != 2 {
		t.Errorf("%d heartbeats, want a second one after 409", n)
	}
}

func TestOldServerGetsPlainHTTP(t *testing.T) {
	r := newRig(t)
	r.server.version = "1.65"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, r.config, r.machine) }()
	h := r.awaitBeat()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(h.CallbackURL, "http://") || h.AgentVerifyCA != "" || r.server.headers[0].Get(wire.VersionHeader) != "1.65" {
		t.Errorf("heartbeat %+v, version %s", h, r.server.headers[0].Get(wire.VersionHeader))
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []Config{{APIURL: ""}, {APIURL: "ftp://x"}, {APIURL: "http://x", CA: []byte("no PEM")}} {
		c.Listen = "127.0.0.1:0"
		if err := Run(t.Context(), c, newRig(t).machine); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	r := newRig(t).start()
	c := r.config
	c.Listen = strings.TrimPrefix(r.first.CallbackURL, "https://")
	if err := Run(t.Context(), c, r.machine); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("taken port: %v", err)
	}
}

func TestServersCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = nil
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{Config{CA: ca}, "does not know this machine"},
		{Config{Insecure: true}, "does not know this machine"},
		{Config{}, "certificate"},
	} {
		c, err := tt.c.withDefaults().withTrust()
		if err != nil {
			t.Fatal(err)
		}
		c.APIURL = s.URL
		a, err := newAPI(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lookupOnce(t.Context(), c, a, newRig(t).machine); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// A certificate is valid by either clock, ours or the server's.
func TestCertificateAndClocks(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, server := range []time.Time{{}, now.Add(-50 * time.Hour), now.Add(50 * time.Hour)} {
		_, p, err := selfSigned("192.0.2.7", now, server)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := pem.Decode(p)
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AddCert(c)
		for _, at := range []time.Time{now, server} {
			if at.IsZero() {
				continue
			}
			if _, err := c.Verify(x509.VerifyOptions{DNSName: "192.0.2.7", Roots: pool, CurrentTime: at}); err != nil {
				t.Errorf("server's clock %v, at %v: %v", server, at, err)
			}
		}
	}
	if _, p, err := selfSigned("agent.example", now, now); err != nil || len(p) == 0 {
		t.Error(err)
	}
}

func TestPauses(t *testing.T) {
	for n := range 40 {
		die := float64(n) / 40
		if d := lookupPause(n, die); d < 300*time.Millisecond || d > 12*time.Second {
			t.Errorf("lookup pause %d is %s", n, d)
		}
		if d := pauseAfter(n+1, 300*time.Second, die); d < 500*time.Millisecond || d > 12*time.Second {
			t.Errorf("heartbeat pause after %d failures is %s", n+1, d)
		}
		if d := pauseAfter(0, 100*time.Second, die); d < 30*time.Second || d > 60*time.Second {
			t.Errorf("heartbeat pause is %s", d)
		}
	}
}

// Forced heartbeats keep the smallest gap; a short timeout does not flood.
func TestHeartWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heart{forced: make(chan struct{}, 1), locked: make(chan struct{})}
		start := time.Now()
		h.now()
		h.now()
		if err := h.wait(t.Context(), time.Hour); err != nil || time.Since(start) != minGap {
			t.Errorf("forced: %v after %s, want %s", err, time.Since(start), minGap)
		}
		start = time.Now()
		if err := h.wait(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Errorf("unforced: %v after %s, want a minute", err, time.Since(start))
		}
	})
}

func TestExplain(t *testing.T) {
	for body, want := range map[string]string{
		`{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node is locked\", \"debuginfo\": null}"}`: "Node is locked",
		`{"error_message": {"faultstring": "plain object"}}`:                                                         "plain object",
		`{"error_message": "just text"}`:                                                                             "just text",
		"<html>\n oops":                                                                                              "<html> oops",
	} {
		if got := explain([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}
