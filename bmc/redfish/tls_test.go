package redfish

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/store"
)

func TestVerifyCA(t *testing.T) {
	b := newFakeBMC(t)
	dir := t.TempDir()
	own := filepath.Join(dir, "own.pem")
	writePEM(t, own, b.Certificate())
	other := filepath.Join(dir, "other.pem")
	writePEM(t, other, otherCertificate(t))
	byName := strings.Replace(b.URL, "127.0.0.1", "localhost", 1) // a name the certificate does not bear
	for _, tt := range []struct {
		name, address, verify string
		ok                    bool
	}{
		{"unknown authority", b.URL, "true", false},
		{"not checked", b.URL, "False", true},
		{"its own certificate", b.URL, own, true},
		{"its own certificate under another name", byName, own, true},
		{"a directory with it", b.URL, dir, true},
		{"another certificate", b.URL, other, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.open(t, "redfish_address", tt.address, "redfish_verify_ca", tt.verify).PowerState(t.Context())
			if tt.ok && err != nil {
				t.Error(err)
			}
			if !tt.ok && (!errors.Is(err, bmc.ErrTLS) || !strings.Contains(err.Error(), fingerprint(b.Certificate())) || !strings.Contains(err.Error(), "set redfish_verify_ca")) {
				t.Errorf("got %v, want ErrTLS with the fingerprint and a remedy", err)
			}
		})
	}
	if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 4 {
		t.Errorf("got %d logins, want 4: none to an untrusted controller", n)
	}
}

func TestHTTPToHTTPS(t *testing.T) {
	b := newFakeBMC(t, "plain")
	_, err := b.open(t, "redfish_address", strings.Replace(b.URL, "http:", "https:", 1)).PowerState(t.Context())
	if err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("got %v, want a hint", err)
	}
	if s, err := b.open(t).PowerState(t.Context()); err != nil || s != store.PowerOff {
		t.Errorf("plain HTTP: got %q, %v", s, err)
	}
}

// TestDefaultTransportIsUntouched guards against H1: an insecure controller
// must not switch off verification for the rest of the process.
func TestDefaultTransportIsUntouched(t *testing.T) {
	b := newFakeBMC(t)
	if _, err := b.open(t).PowerState(t.Context()); err != nil {
		t.Fatal(err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := http.Get(b.URL); !errors.As(err, &unknown) {
		t.Errorf("the default client: got %v, want an unknown authority", err)
	}
	c := http.DefaultTransport.(*http.Transport).TLSClientConfig
	if c != nil && c.InsecureSkipVerify {
		t.Error("http.DefaultTransport does not verify any more")
	}
	if _, err := b.open(t, "redfish_verify_ca", "true").PowerState(t.Context()); !errors.Is(err, bmc.ErrTLS) {
		t.Errorf("a later secure driver: got %v, want ErrTLS", err)
	}
}

func writePEM(t *testing.T, name string, c *x509.Certificate) {
	t.Helper()
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func otherCertificate(t *testing.T) *x509.Certificate {
	t.Helper()
	return selfSigned(t).Leaf
}
