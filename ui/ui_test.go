package ui

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestUnbuiltPageIsHonest(t *testing.T) {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest("GET", "/ui/", nil))
	if w.Code == 501 && !strings.Contains(w.Body.String(), "has no dashboard") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w.Code != 501 && w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") {
		t.Errorf("content security policy is %q", csp)
	}
}
