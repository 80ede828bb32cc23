package client

import "testing"

func TestRefusal(t *testing.T) {
	tests := []struct{ name, body, message, hint string }{
		{"Ironic's, encoded twice", `{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x could not be found.\", \"debuginfo\": null}"}`, "Node x could not be found.", ""},
		{"framework abort", `{"error_message": "{\"code\":404,\"title\":\"Not Found\",\"description\":\"The resource could not be found.\"}"}`, "The resource could not be found.", ""},
		{"flat", `{"error_message": {"faultstring": "too large"}}`, "too large", ""},
		{"plain text inside", `{"error_message": "no"}`, "no", ""},
		{"ours", `{"error": {"message": "no such trace", "hint": "list runs"}}`, "no such trace", "list runs"},
		{"a proxy's page", `<html>bad gateway</html>`, "<html>bad gateway</html>", ""},
		{"nothing", ``, "Bad Gateway", ""},
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
