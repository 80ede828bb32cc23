package sim

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/http"
	"time"

	"bessemer/bmc/sim/flaw"
)

// A session is a login that a token stands for.
type session struct {
	id    string
	user  string
	until time.Time // each use prolongs it
	uses  int
}

// shortSession is after how many uses a session ends that ends early.
const shortSession = 3

// authenticated lets only users reach a method.
func authenticated(do method) method {
	return func(rf *Redfish, c call) (reply, error) {
		if !rf.known(c) {
			return reply{}, unauthorized()
		}
		return do(rf, c)
	}
}

// sessionful lets a method be reached only where there are sessions.
func sessionful(do method) method {
	return func(rf *Redfish, c call) (reply, error) {
		if !rf.hasSessions(c) {
			return reply{}, missing(c.URL.Path)
		}
		return do(rf, c)
	}
}

func (rf *Redfish) hasSessions(c call) bool { return !rf.opts.NoSessions && !c.on("R-09") }

func unauthorized() error {
	return &fault{
		status: 401, message: "NoValidSession", text: "There is no valid session, and user name or password are wrong.",
		header: map[string]string{"WWW-Authenticate": `Basic realm="bmc"`},
	}
}

func (rf *Redfish) known(c call) bool {
	if rf.opts.User == "" {
		return true
	}
	if _, hit := c.ctl.Flaws.Hit(flaw.BMCPassword); hit {
		return false
	}
	if token := c.Header.Get("X-Auth-Token"); token != "" {
		return rf.prolong(token, c)
	}
	user, password, ok := c.BasicAuth()
	return ok && !rf.opts.NoBasic && rf.right(c, user, password)
}

// prolong reports whether there is a session, and lets it live on; on some
// controllers for a few requests only.
func (rf *Redfish) prolong(token string, c call) bool {
	rf.mu.Lock()
	defer rf.mu.Unlock()
	rf.expire()
	s, ok := rf.sessions[token]
	if !ok {
		return false
	}
	s.until = time.Now().Add(rf.opts.SessionLife)
	if s.uses++; s.uses > shortSession && c.on("R-10") {
		delete(rf.sessions, token)
		return false
	}
	return true
}

// right checks a password. Some controllers lock the account after a few
// wrong ones.
func (rf *Redfish) right(c call, user, password string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(rf.opts.User))
	p := subtle.ConstantTimeCompare([]byte(password), []byte(rf.opts.Password))
	right := rf.opts.User == "" || u&p == 1
	return rf.unlocked(c, right) && right
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
	_, refused := c.ctl.Flaws.Hit(flaw.BMCPassword)
	if refused || !rf.right(c, user, password) {
		return reply{}, unauthorized()
	}
	if err := c.noRoom(); err != nil {
		return reply{}, err
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
	if rf.sessions == nil {
		rf.sessions = map[string]*session{}
	}
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
	_, s := rf.session(c.PathValue("name"))
	if s == nil {
		return reply{}, missing(c.URL.Path)
	}
	return reply{body: s.doc()}, nil
}

func (rf *Redfish) deleteSession(c call) (reply, error) {
	token, s := rf.session(c.PathValue("name"))
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
