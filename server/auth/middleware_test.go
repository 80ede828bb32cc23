package auth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bessemer/store/storetest"
)

func TestMiddleware(t *testing.T) {
	a := open(t)
	add(t, a, "ann", "correct horse", Reader)
	token, _, _ := a.Login("192.0.2.1", "ann", "correct horse")
	h := a.Middleware(func(r *http.Request) bool { return r.URL.Path == "/" }, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := From(r.Context())
		fmt.Fprintf(w, "%s/%s", id.User, id.Role)
	}))
	tests := []struct {
		name, path string
		header     http.Header
		code       int
		body       string
	}{
		{"public", "/", nil, 200, "/"},
		{"nothing", "/v1/nodes", nil, 401, "Authorization required"},
		{"basic", "/v1/nodes", basic("ann", "correct horse"), 200, "ann/reader"},
		{"wrong", "/v1/nodes", basic("ann", "x"), 401, "Incorrect user name or password"},
		{"unknown user", "/v1/nodes", basic("eve", "x"), 401, "Incorrect user name or password"},
		{"token", "/v1/nodes", http.Header{"X-Auth-Token": {token}}, 200, "ann/reader"},
		{"bad token", "/v1/nodes", http.Header{"X-Auth-Token": {"notused"}}, 401, "Incorrect user name or password"},
		{"bearer", "/v1/nodes", http.Header{"Authorization": {"Bearer " + token}}, 401, "Only basic authorization is supported"},
		{"garbage", "/v1/nodes", http.Header{"Authorization": {"Basic !"}}, 401, "Only basic authorization is supported"},
		{"claimed identity", "/v1/nodes", http.Header{
			"X-Roles": {"admin"}, "X-User-Id": {"ann"}, "X-Forwarded-User": {"ann"}, "X-Remote-User": {"ann"},
			"X-Is-Admin-Project": {"True"}, "X-Identity-Status": {"Confirmed"}, "X-Ssl-Client-S-Dn": {"CN=ann"},
		}, 401, "Authorization required"},
		{"claimed role beside a real user", "/v1/nodes", merge(basic("ann", "correct horse"), http.Header{"X-Roles": {"admin"}}), 200, "ann/reader"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, tt.path, nil)
			for k, v := range tt.header {
				r.Header[k] = v
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tt.code, tt.body)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("challenge: %q", w.Header().Get("WWW-Authenticate"))
			}
			if w.Code == 401 && !strings.HasPrefix(w.Body.String(), `{"error":{"message":`) {
				t.Errorf("body %s", w.Body)
			}
		})
	}
}

func TestFloodOfBadLoginsIsRefusedWithoutHashing(t *testing.T) {
	a := open(t)
	add(t, a, "ann", "correct horse", Admin)
	h := a.Middleware(func(*http.Request) bool { return false }, http.NotFoundHandler())
	codes := map[int]int{}
	for range 3 * burst {
		r := httptest.NewRequest(http.MethodGet, "/v1/nodes", nil)
		r.SetBasicAuth("ann", "guess")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		codes[w.Code]++
	}
	if codes[401] < burst || codes[429] == 0 || codes[401]+codes[429] != 3*burst {
		t.Errorf("got %v", codes)
	}
}

func TestModeNone(t *testing.T) {
	a, err := New(Config{DB: storetest.Open(t), Mode: None})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/nodes", nil)
	r.Header.Set("X-Auth-Token", "notused")
	if id, err := a.identify(r); err != nil || !id.Admin() {
		t.Errorf("got %+v, %v", id, err)
	}
	if _, err := New(Config{Mode: "ldap"}); err == nil {
		t.Error("an unknown mode was taken")
	}
}

func basic(user, password string) http.Header {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header
}

func merge(a, b http.Header) http.Header {
	for k, v := range b {
		a[k] = v
	}
	return a
}
