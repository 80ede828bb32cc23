package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"bessemer/configs"
	"bessemer/server/client"
)

// The local secret goes to this host alone, whatever URL is asked for.
func TestLocalSecretGoesToNoOtherHost(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "admin.secret"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := configs.Default()
	cfg.DataDir, cfg.API.Listen = dir, "192.0.2.7:6385"
	for base, want := range map[string]string{
		"http://127.0.0.1:6385": "s3cret", "https://localhost:1": "s3cret", "http://[::1]:6385": "s3cret", "http://192.0.2.7:6385": "s3cret",
		"http://192.0.2.8:6385": "", "https://appliance.example.org": "", "http://127.0.0.1.example.org:6385": "",
	} {
		cl := &client.Client{Base: base}
		err := withFlags(t, []cli.Flag{&cli.StringFlag{Name: "user"}}, nil, func(c *cli.Context) error { return login(c, cl, cfg) })
		if err != nil || cl.Password != want {
			t.Errorf("%s: got the password %q, %v, want %q", base, cl.Password, err, want)
		}
		if !strings.Contains(cl.Denied, "BESSEMER_PASSWORD") {
			t.Errorf("%s: a refusal says %q, not how to log in", base, cl.Denied)
		}
	}
}

func TestReachable(t *testing.T) {
	for in, want := range map[string]string{
		"0.0.0.0:6385": "127.0.0.1:6385", "[::]:1": "127.0.0.1:1", ":2": "127.0.0.1:2", "192.0.2.1:3": "192.0.2.1:3", "127.0.0.1:4": "127.0.0.1:4",
	} {
		if got := reachable(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("other"), ""},
		{fmt.Errorf("list: %w", &client.Unreachable{Err: errors.New("connection refused")}), "bessemer serve"},
		{&client.Unreachable{Err: x509.UnknownAuthorityError{}}, "--ca FILE"},
		{&client.Unreachable{Err: errors.New("http: server gave HTTP response to HTTPS client")}, "http, not https"},
	} {
		if got := advice(tt.err); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("no"), 1},
		{usagef("no"), 2},
		{&client.Error{Status: http.StatusNotFound}, 3},
		{fmt.Errorf("x: %w", &client.Error{Status: http.StatusNotFound}), 3},
		{fmt.Errorf("%w after 1s", errTimeout), 4},
		{&client.Error{Status: http.StatusGatewayTimeout}, 4},
		{&client.Error{Status: http.StatusConflict}, 5},
		{&client.Error{Status: http.StatusUnauthorized}, 1},
		{&client.Unreachable{Err: context.DeadlineExceeded}, 1},
		{fmt.Errorf("%w; it goes on", errInterrupted), 130},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.err, got, tt.want)
		}
	}
}
