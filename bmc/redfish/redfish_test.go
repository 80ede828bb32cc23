package redfish

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bessemer/bmc"
	"bessemer/bmc/bmctest"
	"bessemer/store"
)

func TestSuite(t *testing.T) {
	for _, quirk := range []string{"", "no sessions", "B-05", "B-06", "B-10", "R-02", "R-03", "R-04 body", "R-06"} {
		t.Run("quirk "+quirk, func(t *testing.T) {
			bmctest.Suite(t, func(t *testing.T) bmctest.Rig {
				b := newFakeBMC(t, quirk)
				return bmctest.Rig{
					Driver: b.open(t), Password: testPassword, Wire: true, OneMode: quirk == "B-05",
					WrongPassword: func() bmc.Driver { return b.open(t, "redfish_password", "wrong-0816") }, WrongSecret: "wrong-0816",
					Nothing: func() bmc.Driver { return b.open(t, "redfish_address", unused(t)) },
					Silent:  func() bmc.Driver { return b.open(t, "redfish_address", silent(t)) },
				}
			})
		})
	}
}

// unused returns an address where nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silent returns an address that takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestSetBootQuirks(t *testing.T) {
	pxe := bmc.Boot{Device: bmc.PXE, Mode: "uefi"}
	for _, tt := range []struct {
		quirks string
		set    bmc.Boot
		want   bmc.Boot // "" device: as set
	}{
		{"", pxe, pxe},
		{"R-01", pxe, pxe},
		{"R-01 429", pxe, pxe},
		{"R-01 no tag", pxe, pxe},
		{"R-02", pxe, pxe},
		{"R-03", pxe, pxe},
		{"R-04 body", pxe, pxe},
		{"R-04 bare", pxe, pxe},
		{"R-08", pxe, pxe},
		{"R-09 no link", pxe, pxe},
		{"B-04", bmc.Boot{Device: bmc.Disk, Mode: "uefi", Persistent: true}, bmc.Boot{Device: bmc.Disk, Mode: "uefi"}},
		{"B-05", pxe, bmc.Boot{Device: bmc.PXE}},
		{"B-06", pxe, pxe},
		{"B-06 empty", pxe, pxe},
		{"B-07", bmc.Boot{}, bmc.Boot{Mode: "uefi"}},
		{"B-18", pxe, pxe},
	} {
		t.Run(tt.quirks, func(t *testing.T) {
			b := newFakeBMC(t, tt.quirks)
			b.boot["BootSourceOverrideTarget"] = "Cd"
			d := b.open(t, "redfish_system_id", systemPath)
			for range 2 {
				if err := d.SetBoot(t.Context(), tt.set); err != nil {
					t.Fatal(err)
				}
				got, err := d.Boot(t.Context())
				if err != nil || got != tt.want {
					t.Errorf("got %s, %v, want %s", got, err, tt.want)
				}
			}
		})
	}
}

// TestETagFormIsRemembered counts what the second write costs.
func TestETagFormIsRemembered(t *testing.T) {
	b := newFakeBMC(t, "R-02")
	d := b.open(t)
	for range 2 {
		if err := d.SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE, Mode: "uefi"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.count("PATCH " + systemPath); n > 5 {
		t.Errorf("got %d PATCH requests for two settings, want at most 5", n)
	}
	last := len(b.requests) - 2
	if b.requests[last] != "GET "+systemPath {
		t.Errorf("the second setting took more than one PATCH: %v", b.requests[last:])
	}
}

func TestAllOfAnOverrideIsSent(t *testing.T) {
	b := newFakeBMC(t)
	b.boot["BootSourceOverrideMode"] = "Legacy"
	if err := b.open(t).SetBoot(t.Context(), bmc.Boot{Device: bmc.PXE}); err != nil {
		t.Fatal(err)
	}
	want := `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"Legacy","BootSourceOverrideTarget":"Pxe"}}`
	if len(b.bodies) != 1 || b.bodies[0] != want {
		t.Errorf("got %v, want %s", b.bodies, want)
	}
}

func TestTargetNames(t *testing.T) {
	for _, tt := range []struct {
		device  bmc.BootDevice
		allowed []text
		p       profile
		want    string
	}{
		{bmc.CDROM, nil, profile{}, "Cd"},
		{bmc.CDROM, []text{"Pxe", "UsbCd"}, profile{}, "UsbCd"},
		{bmc.CDROM, []text{"Cd", "UsbCd"}, profile{cdromByUSBFirst: true}, "UsbCd"},
		{bmc.UEFIHTTP, []text{"Pxe"}, profile{}, ""},
		{bmc.Safe, nil, profile{}, ""},
	} {
		got, err := target(tt.device, override{Targets: loose[[]text]{tt.allowed}}, tt.p)
		if got != tt.want || (got == "") != errors.Is(err, bmc.ErrUnsupported) {
			t.Errorf("%s of %v: got %q, %v, want %q", tt.device, tt.allowed, got, err, tt.want)
		}
	}
}

func TestPower(t *testing.T) {
	t.Run("graceful restart is never sent (B-10)", func(t *testing.T) {
		b := newFakeBMC(t, "B-10")
		b.power = "On"
		d := b.open(t)
		for _, a := range []bmc.PowerAction{bmc.Reset, bmc.SoftOff, bmc.Reset, bmc.ForceOff} {
			if err := d.Power(t.Context(), a); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
		want := "PowerCycle PushPowerButton On ForceOff"
		got := strings.NewReplacer(`{"ResetType":"`, "", `"}`, "").Replace(strings.Join(b.bodies, " "))
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("refused but done (B-09)", func(t *testing.T) {
		if err := newFakeBMC(t, "B-09").open(t).Power(t.Context(), bmc.On); err != nil {
			t.Error(err)
		}
	})
	t.Run("between two states (B-21)", func(t *testing.T) {
		for _, s := range []string{"PoweringOn", "Paused", "", "Weird"} {
			b := newFakeBMC(t)
			b.power = s
			if got, err := b.open(t).PowerState(t.Context()); got != "" || err != nil {
				t.Errorf("%q: got %q, %v, want no state", s, got, err)
			}
		}
	})
}

// TestLostAnswerIsNotRepeated has the controller act and drop the connection.
func TestLostAnswerIsNotRepeated(t *testing.T) {
	b := newFakeBMC(t)
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "Reset") {
			return false
		}
		b.mu.Lock()
		b.power = "On"
		b.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	b.Config.ErrorLog = nil
	if err := b.open(t).Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	if n := b.count("POST " + systemPath + "/Actions/ComputerSystem.Reset"); n != 1 {
		t.Errorf("got %d resets, want 1 (R-12)", n)
	}
}

func TestNotReadyIsWaitedFor(t *testing.T) {
	b := newFakeBMC(t)
	d := b.open(t)
	b.failures = 4
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Errorf("read: %v", err)
	}
	b.failures = 2
	if err := d.Power(t.Context(), bmc.On); err != nil || b.power != "On" {
		t.Errorf("power on: %v, state %s", err, b.power)
	}
}

func TestDroppedConnectionIsRetriedForReads(t *testing.T) {
	b := newFakeBMC(t)
	d := b.open(t)
	drops := 2
	b.answer = func(w http.ResponseWriter, r *http.Request) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.URL.Path == systemPath && drops > 0 {
			drops--
			panic(http.ErrAbortHandler)
		}
		return false
	}
	if _, err := d.PowerState(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLogin(t *testing.T) {
	t.Run("expired session (R-10)", func(t *testing.T) {
		b := newFakeBMC(t)
		d := b.open(t)
		for range 3 {
			if _, err := d.PowerState(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.mu.Lock()
			clear(b.tokens)
			b.mu.Unlock()
		}
		if b.made != 3 {
			t.Errorf("got %d sessions, want 3", b.made)
		}
	})
	t.Run("one try of a wrong password (R-11)", func(t *testing.T) {
		b := newFakeBMC(t)
		_, err := b.open(t, "redfish_password", "wrong").PowerState(t.Context())
		if !errors.Is(err, bmc.ErrCredentials) {
			t.Errorf("got %v, want ErrCredentials", err)
		}
		if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 || len(b.requests) != 2 {
			t.Errorf("got %v, want the root and one login", b.requests)
		}
	})
	t.Run("session is ended", func(t *testing.T) {
		b := newFakeBMC(t)
		d := b.open(t)
		if _, err := d.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil || len(b.tokens) != 0 {
			t.Errorf("got %v with %d sessions left, want none", err, len(b.tokens))
		}
	})
	t.Run("only sessions, and none left (R-06)", func(t *testing.T) {
		_, err := newFakeBMC(t, "R-06").open(t, "redfish_auth_type", "session").PowerState(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no room for another session") {
			t.Errorf("got %v, want that there is no room", err)
		}
	})
	t.Run("root wants a login", func(t *testing.T) {
		b := newFakeBMC(t)
		b.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if _, _, ok := r.BasicAuth(); strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1" && !ok {
				fail(w, http.StatusUnauthorized, "", "")
				return true
			}
			return false
		}
		if _, err := b.open(t).PowerState(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSystemID(t *testing.T) {
	for _, tt := range []struct{ quirk, id, fail string }{
		{"", "", ""},
		{"", "1", ""},
		{"", systemPath + "/", ""},
		{"", "/redfish/v1/Systems/9", "the controller lists " + systemPath},
		{"R-28", "", "set redfish_system_id to one of " + systemPath + ", /redfish/v1/Systems/2"},
		{"R-28", "1", ""},
	} {
		_, err := newFakeBMC(t, tt.quirk).open(t, "redfish_system_id", tt.id).PowerState(t.Context())
		if tt.fail == "" && err != nil || tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)) {
			t.Errorf("%s %q: got %v, want %q", tt.quirk, tt.id, err, tt.fail)
		}
	}
}

func TestIdentify(t *testing.T) {
	for _, tt := range []struct{ quirk, serial string }{{"", "4711"}, {"dell", "TAG1"}} {
		info, err := newFakeBMC(t, tt.quirk).open(t).Identify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.Serial != tt.serial || info.Firmware != "2.75" || info.SystemUUID != "16b7275a-4a72-508c-8000-000000000001" {
			t.Errorf("%s: got %+v, want serial %s", tt.quirk, info, tt.serial)
		}
		if got, want := strings.Join(info.MACs, " "), "52:54:00:aa:00:01 52:54:00:aa:00:03"; got != want {
			t.Errorf("got MACs %s, want %s", got, want)
		}
	}
}

func TestDriverInfo(t *testing.T) {
	kind := Type()
	_, err := kind.Open(bmc.Target{DriverInfo: map[string]any{
		"redfish_address": "https://u:p@h/", "redfish_verify_ca": "maybe", "redfish_auth_type": "kerberos",
		"redfish_system_id": "http://x/1", "redfish_password": testPassword,
	}})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, key := range []string{"redfish_address", "redfish_verify_ca", "redfish_auth_type", "redfish_system_id", "redfish_username"} {
		if !strings.Contains(err.Error(), key+": ") {
			t.Errorf("no fault of %s in %v", key, err)
		}
	}
	if strings.Contains(err.Error(), testPassword) {
		t.Errorf("the password is in %v", err)
	}
	for _, p := range kind.Properties {
		if p.Help == "" {
			t.Errorf("%s has no help", p.Name)
		}
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.5":                         "https://10.0.0.5:443",
		"HTTP://BMC.example:8080/":         "http://bmc.example:8080",
		"https://bmc/redfish/v1/":          "https://bmc:443",
		"2001:db8::1":                      "https://[2001:db8::1]:443",
		"https://[2001:db8::1]:8443":       "https://[2001:db8::1]:8443",
		"https://[fe80::1%25eth0]/":        "https://[fe80::1%25eth0]:443",
		"ftp://bmc":                        "",
		"https://bmc/other":                "",
		"https://":                         "",
		"https://bmc?x=y":                  "",
		"https://user:pw@bmc":              "",
		"https://bmc#f":                    "",
		"10.0.0.5@169.254.169.254":         "",
		"https://bmc:99999999999999999999": "https://bmc:99999999999999999999", // fails to dial
	} {
		f := bmc.Target{DriverInfo: map[string]any{"redfish_address": in}}.Fields()
		got := ""
		if u := readAddress(f); u != nil {
			got = u.String()
		}
		if got != want || (want == "") != (f.Err() != nil) {
			t.Errorf("%s: got %q, %v, want %q", in, got, f.Err(), want)
		}
	}
}

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
