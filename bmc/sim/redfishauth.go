package sim

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"
)

// A session is a login that a token stands for.
type session struct {
	id    string
	user  string
	until time.Time // each use prolongs it
}

// authenticated lets only users reach a method.
func (rf *Redfish) authenticated(do method) method {
	return func(c call) (reply, error) {
		if !rf.known(c.Request) {
			return reply{}, unauthorized()
		}
		return do(c)
	}
}

func unauthorized() error {
	return &fault{
		status: 401, message: "NoValidSession", text: "There is no valid session, and user name or password are wrong.",
		header: map[string]string{"WWW-Authenticate": `Basic realm="bmc"`},
	}
}

func (rf *Redfish) known(r *http.Request) bool {
	if rf.opts.User == "" {
		return true
	}
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		rf.mu.Lock()
		defer rf.mu.Unlock()
		rf.expire()
		s, ok := rf.sessions[token]
		if ok {
			s.until = time.Now().Add(rf.opts.SessionLife)
		}
		return ok
	}
	user, password, ok := r.BasicAuth()
	return ok && !rf.opts.NoBasic && rf.right(user, password)
}

func (rf *Redfish) right(user, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(rf.opts.User))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(rf.opts.Password))
	return rf.opts.User == "" || u&p == 1
}

// expire forgets sessions that were not used for too long. mu is held.
func (rf *Redfish) expire() {
	for token, s := range rf.sessions {
		if time.Now().After(s.until) {
			delete(rf.sessions, token)
		}
	}
}

// Sessions is how many sessions there are now.
func (rf *Redfish) Sessions() int {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	rf.expire()
	return len(rf.sessions)
}

// DropSessions ends all sessions, as a controller's restart does.
func (rf *Redfish) DropSessions() {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	clear(rf.sessions)
}

func (rf *Redfish) getSessionService(call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + "/SessionService", "@odata.type": "#SessionService.v1_1_6.SessionService",
		"Id": "SessionService", "Name": "Session Service", "Status": healthy(), "ServiceEnabled": true,
		"SessionTimeout": int(rf.opts.SessionLife.Seconds()), "Sessions": link("/SessionService/Sessions"),
	}}, nil
}

func (rf *Redfish) getSessions(call) (reply, error) {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	rf.expire()
	var ids []string
	for _, s := range rf.sessions {
		ids = append(ids, s.id)
	}
	return collection("/SessionService/Sessions", "SessionCollection.SessionCollection", "Sessions", ids), nil
}

func (rf *Redfish) postSession(c call) (reply, error) {
	user, _ := c.body["UserName"].(string)
	password, _ := c.body["Password"].(string)
	if !rf.right(user, password) {
		return reply{}, unauthorized()
	}
	rf.mu.Lock()
	defer rf.mu.Unlock()
	rf.expire()
	if len(rf.sessions) >= rf.opts.MaxSessions {
		return reply{}, &fault{
			status: 503, message: "SessionLimitExceeded", header: map[string]string{"Retry-After": "5"},
			text: fmt.Sprintf("The maximum of %d sessions is reached.", rf.opts.MaxSessions),
		}
	}
	rf.lastID++
	token := rand.Text()
	s := &session{id: fmt.Sprint(rf.lastID), user: user, until: time.Now().Add(rf.opts.SessionLife)}
	rf.sessions[token] = s
	body := s.doc()
	return reply{
		status: http.StatusCreated, body: body,
		header: map[string]string{"X-Auth-Token": token, "Location": body["@odata.id"].(string)},
	}, nil
}

func (rf *Redfish) getSession(c call) (reply, error) {
	_, s := rf.session(c.PathValue("session"))
	if s == nil {
		return reply{}, missing(c.URL.Path)
	}
	return reply{body: s.doc()}, nil
}

func (rf *Redfish) deleteSession(c call) (reply, error) {
	token, s := rf.session(c.PathValue("session"))
	if s == nil {
		return reply{}, missing(c.URL.Path)
	}
	rf.mu.Lock()
	defer rf.mu.Unlock()
	delete(rf.sessions, token)
	return reply{}, nil
}

func (rf *Redfish) session(id string) (token string, s *session) {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	for token, s := range rf.sessions {
		if s.id == id {
			return token, s
		}
	}
	return "", nil
}

func (s *session) doc() doc {
	return doc{
		"@odata.id": root + "/SessionService/Sessions/" + s.id, "@odata.type": "#Session.v1_2_1.Session",
		"Id": s.id, "Name": "User Session", "UserName": s.user,
	}
}
