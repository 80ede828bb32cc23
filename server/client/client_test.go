package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRefusal(t *testing.T) {
	tests := []struct{ name, body, message, hint string }{
		{"Ironic's, encoded twice", `{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x could not be found.\", \"debuginfo\": null}"}`, "node x could not be found", ""},
		{"framework abort", `{"error_message": "{\"code\":404,\"title\":\"Not Found\",\"description\":\"The resource could not be found.\"}"}`, "the resource could not be found", ""},
		{"flat", `{"error_message": {"faultstring": "too large"}}`, "too large", ""},
		{"plain text inside", `{"error_message": "no"}`, "no", ""},
		{"ours", `{"error": {"message": "no such trace", "hint": "list runs"}}`, "no such trace", "list runs"},
		{"an abbreviation first", `{"error": {"message": "MAC address in use"}}`, "MAC address in use", ""},
		{"a short word first", `{"error": {"message": "A node with this name exists."}}`, "a node with this name exists", ""},
		{"a proxy's page", `<html>bad gateway</html>`, "<html>bad gateway</html>", ""},
		{"nothing", ``, "bad gateway", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := refusal(502, []byte(tt.body))
			if e.Message != tt.message || e.Hint != tt.hint {
				t.Errorf("got %q (%q), want %q (%q)", e.Message, e.Hint, tt.message, tt.hint)
			}
		})
	}
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, base := range []string{"", "localhost:6385", "ftp://x", "http://", "://"} {
		if _, err := New(base, nil); err == nil {
			t.Errorf("%q was taken", base)
		}
	}
}

func TestDeniedIsExplained(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error_message": "{\"faultstring\": \"Authorization required\"}"}`, http.StatusUnauthorized)
	}))
	defer srv.Close()
	c, err := New(srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Denied = "give a password"
	err = c.Get(t.Context(), "/v1/nodes", nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != http.StatusUnauthorized || e.Error() != "authorization required (give a password)" {
		t.Errorf("got %v", err)
	}
}

func TestUnreachableNamesTheAppliance(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c, err := New(srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Get(t.Context(), "/v1/nodes", nil)
	u, ok := errors.AsType[*Unreachable](err)
	if !ok || u.Base != srv.URL || strings.Contains(u.Err.Error(), "/v1/nodes") {
		t.Errorf("got %v", err)
	}
}
