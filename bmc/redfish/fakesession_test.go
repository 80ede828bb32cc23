package redfish

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func (b *fakeBMC) newSession(w http.ResponseWriter, body []byte) {
	var in struct{ UserName, Password string }
	_ = json.Unmarshal(body, &in)
	switch {
	case b.quirks["R-06"], b.room > 0 && len(b.tokens) >= b.room:
		fail(w, http.StatusServiceUnavailable, "IDRAC.1.6.RAC0218", "The maximum number of user sessions is reached")
	case in.UserName != testUser || in.Password != testPassword:
		fail(w, http.StatusUnauthorized, "Base.1.0.InsufficientPrivilege", "login of "+in.UserName+" with "+in.Password+" refused")
	default:
		b.made++
		id := fmt.Sprintf("token-%d", b.made)
		b.tokens[id] = true
		w.Header().Set("X-Auth-Token", id)
		w.Header().Set("Location", "https://some-other-name/redfish/v1/SessionService/Sessions/"+id)
		w.WriteHeader(http.StatusCreated)
		reply(w, map[string]any{})
	}
}

// session shows a session; those that others have made are an admin's.
func (b *fakeBMC) session(w http.ResponseWriter, id string) {
	if !b.tokens[id] {
		fail(w, http.StatusNotFound, "", "there is no such session")
		return
	}
	user := testUser
	if strings.HasPrefix(id, "admin") {
		user = "admin"
	}
	reply(w, map[string]any{"Id": id, "UserName": user})
}

func (b *fakeBMC) authorized(r *http.Request) bool {
	u, p, ok := r.BasicAuth()
	return b.tokens[r.Header.Get("X-Auth-Token")] || ok && u == testUser && p == testPassword
}
