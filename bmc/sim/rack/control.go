package rack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"

	"bessemer/bmc"
	"bessemer/bmc/sim"
	"bessemer/bmc/sim/flaw"
)

// all stands for every machine in a name's place.
const all = "all"

// A change is the body of a request of the control socket; each request looks
// at what it needs.
type change struct {
	Count   int             `json:"count,omitempty"`
	Profile string          `json:"profile,omitempty"`
	Faults  []flaw.Fault    `json:"faults,omitempty"`
	Kinds   []flaw.Kind     `json:"kinds,omitempty"`
	On      []flaw.ID       `json:"on,omitempty"`
	Off     []flaw.ID       `json:"off,omitempty"`
	Power   bmc.PowerAction `json:"power,omitempty"`
}

// Listen makes the control socket of a rack, which only its user may open. A
// socket that a killed rack left is replaced; one that answers is not.
func Listen(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen on %s: another rack answers there", path)
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // or listening says why it cannot
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for commands to the rack: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("listen for commands to the rack: %w", err)
	}
	return ln, nil
}

// Handler is the control of a rack, for a socket of [Listen]: what [Client]
// asks for. Where a path has a machine's name, "all" stands for every one.
func Handler(r *Rack) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) { answer(w, statuses(r.Machines()), nil) })
	m.HandleFunc("POST /machines", r.handleAdd)
	m.HandleFunc("POST /down", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, nil, nil)
		_ = http.NewResponseController(w).Flush() // the rack may be gone before this returns
		r.Down()
	})
	m.HandleFunc("GET /machines/{name}/journal", r.each(func(m *Machine, _ change) (any, error) { return m.Journal() }))
	m.HandleFunc("GET /machines/{name}/enrollment", r.each(func(m *Machine, _ change) (any, error) { return m.Enrollment(), nil }))
	m.HandleFunc("POST /machines/{name}/inject", r.each(inject))
	m.HandleFunc("POST /machines/{name}/heal", r.each(func(m *Machine, c change) (any, error) {
		m.flaws.Heal(c.Kinds...)
		return m.flaws.Faults(), nil
	}))
	m.HandleFunc("POST /machines/{name}/quirks", r.each(turn))
	m.HandleFunc("POST /machines/{name}/power", r.each(func(m *Machine, c change) (any, error) {
		return nil, m.Act(c.Power, ByHand)
	}))
	return m
}

func statuses(ms []*Machine) []Status {
	all := make([]Status, len(ms))
	for i, m := range ms {
		all[i] = m.Status()
	}
	return all
}

func (r *Rack) handleAdd(w http.ResponseWriter, req *http.Request) {
	c, err := readChange(w, req)
	if err == nil && c.Count < 1 {
		err = fmt.Errorf("%w: count %d is below 1", errBadChange, c.Count)
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	added, err := r.Add(c.Count, c.Profile)
	enrollments := make([]Enrollment, len(added))
	for i, m := range added {
		enrollments[i] = m.Enrollment()
	}
	answer(w, enrollments, err)
}

func inject(m *Machine, c change) (any, error) {
	for _, f := range c.Faults {
		checked, err := flaw.ParseFault(f.String())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBadChange, err)
		}
		m.flaws.Inject(checked)
	}
	return m.flaws.Faults(), nil
}

func turn(m *Machine, c change) (any, error) {
	for _, id := range append(append([]flaw.ID(nil), c.On...), c.Off...) {
		if !flaw.HasFlag(id) {
			return nil, fmt.Errorf("%w: quirk %q has no flag", errBadChange, id)
		}
	}
	m.Turn(true, c.On...)
	m.Turn(false, c.Off...)
	return m.flaws.Quirks(), nil
}

var (
	errBadChange = errors.New("cannot be done")
	errNoMachine = errors.New("no such machine")
)

// each does something with the machine that a path names, or with all. The
// answer is by name.
func (r *Rack) each(do func(*Machine, change) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		c, err := readChange(w, req)
		if err != nil {
			answer(w, nil, err)
			return
		}
		name := req.PathValue("name")
		machines := r.Machines()
		if name != all {
			m := r.Machine(name)
			if m == nil {
				answer(w, nil, fmt.Errorf("%w: %q", errNoMachine, name))
				return
			}
			machines = []*Machine{m}
		}
		answers := map[string]any{}
		var errs []error
		for _, m := range machines {
			v, err := do(m, c)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.Name(), err))
				continue
			}
			answers[m.Name()] = v
		}
		answer(w, answers, errors.Join(errs...))
	}
}

// maxChange is the longest request, in bytes.
const maxChange = 1 << 20

func readChange(w http.ResponseWriter, r *http.Request) (c change, err error) {
	if r.Method == http.MethodGet {
		return c, nil
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChange)).Decode(&c); err != nil {
		return c, fmt.Errorf("%w: the request is not what the rack understands: %w", errBadChange, err)
	}
	return c, nil
}

// answer sends a value, or why there is none.
func answer(w http.ResponseWriter, v any, err error) {
	code := http.StatusOK
	if err != nil {
		code = http.StatusInternalServerError
		switch {
		case errors.Is(err, errNoMachine):
			code = http.StatusNotFound
		case errors.Is(err, errBadChange), errors.Is(err, sim.ErrOff), errors.Is(err, bmc.ErrUnsupported):
			code = http.StatusBadRequest
		}
		v = map[string]string{"error": err.Error()}
	}
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(code)
	_, _ = w.Write(b) // who asked has gone
}
