package prove

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"bessemer/bmc"
	"bessemer/bmc/fake"
	"bessemer/bmc/ipmi"
	"bessemer/bmc/redfish"
	"bessemer/configs"
	"bessemer/server"
	"bessemer/server/conductor"
	"bessemer/store"
)

// orderVariable holds the order of a process that is the appliance, as JSON.
const orderVariable = "PROVE_ORDER"

// An order is what an appliance is to suffer. Its settings are in the
// environment, as those of any appliance.
type order struct {
	// Die is the point, "workflow/step point", at which the process kills
	// itself; "every" is each point at which none has died yet.
	Die []string
	// Share is the percentage of points that "every" means, by the hash of
	// their name and Seed; 0: all.
	Share, Seed uint64
	// Points is the file to which each point is added that the process comes
	// by; those at which it dies are kept in Points + ".dead".
	Points string

	Write      uint64        // the number of the store's write that fails; 0: none
	WriteWhen  store.Moment  // when
	WriteErrno syscall.Errno // and how
	WriteLasts uint64        // so many that follow fail as well

	Agent    int64 // the number of the call to an agent that fails; 0: none
	Machines int64 // the same of machines' requests
	Lost     bool  // these do what they ask for, and only the answer is lost
	// Every is after how many more writes, calls or requests the next one
	// fails; 0: there is no next one.
	Every uint64
	// Hits is the file to which a line is added for each that has failed.
	Hits string

	OpenFiles uint64 // limit on open files; 0: as it is
	FileSize  uint64 // limit on the size of a file, bytes

	Hold string // be no appliance, but keep a small disk mounted here
	Disk int    // its size, MiB
}

// TestMain lets the test binary be the appliance.
func TestMain(m *testing.M) {
	text := os.Getenv(orderVariable)
	if text == "" {
		flag.Parse()
		if p := flag.Lookup("test.parallel"); p.Value.String() == p.DefValue {
			_ = p.Value.Set("6") // they mostly wait
		}
		os.Exit(m.Run())
	}
	if err := beAppliance(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beAppliance runs the appliance until the standard input ends, as it does
// when the test has ended or wants this process to.
func beAppliance(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	_ = os.Unsetenv(orderVariable)
	if o.Hold != "" {
		return hold(o.Hold, o.Disk)
	}
	cfg, err := configs.Load("", os.Environ(), nil)
	if err != nil {
		return err
	}
	if err := o.limit(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := server.Open(ctx, server.Options{
		Config: cfg, Version: "prove", Log: zerolog.New(os.Stderr).Level(zerolog.InfoLevel).With().Timestamp().Logger(),
		Types: bmc.Types{"redfish": redfish.Type(), "ipmi": ipmi.Type(), "fake-hardware": fake.Type()},
		Prove: o.prove(), Crash: o.points(),
	})
	if err != nil {
		return err
	}
	fmt.Println("open")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return s.Run(ctx)
}

// limit takes away from the process what it is to do without.
func (o *order) limit() error {
	if o.OpenFiles > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: o.OpenFiles, Max: o.OpenFiles}); err != nil {
			return fmt.Errorf("limit open files: %w", err)
		}
	}
	if o.FileSize > 0 {
		signal.Ignore(syscall.SIGXFSZ) // a write then fails, as on a full disk
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: o.FileSize, Max: unix.RLIM_INFINITY}); err != nil {
			return fmt.Errorf("limit the size of files: %w", err)
		}
	}
	return nil
}

func (o *order) prove() server.Prove {
	p := server.Prove{Times: func(t *conductor.Timeouts) {
		t.Claim, t.Backoff, t.StoreRetry = 3*time.Second, 50*time.Millisecond, 50*time.Millisecond
	}}
	if o.Write > 0 {
		p.Write = o.write
	}
	if o.Agent > 0 {
		p.Agent = func(next http.RoundTripper) http.RoundTripper { return &losing{next: next, order: o} }
	}
	if o.Machines > 0 {
		p.Machines = o.loseRequests
	}
	return p
}

// points is what is called at the conductor's points.
func (o *order) points() func(where, point string) {
	if o.Points == "" {
		return nil
	}
	return o.crash
}

var (
	pointsMu sync.Mutex
	passed   = map[string]bool{}
)

// crash notes a point, and kills the process there if it is to die.
func (o *order) crash(where, point string) {
	pointsMu.Lock()
	defer pointsMu.Unlock()
	at := where + " " + point
	if !passed[at] && o.Points != "" {
		appendLine(o.Points, at)
	}
	passed[at] = true
	dead := linesOf(o.Points + ".dead")
	for _, d := range o.Die {
		if (d == at || d == "every" && o.chosen(at)) && !dead[at] {
			appendLine(o.Points+".dead", at)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}

// chosen says whether a point is in the share of points to die at.
func (o *order) chosen(at string) bool {
	h := fnv.New64a()
	fmt.Fprint(h, o.Seed, at)
	return o.Share == 0 || h.Sum64()%100 < o.Share
}

func appendLine(name, line string) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		panic(err)
	}
}

// linesOf returns the lines of a file; none if there is none.
func linesOf(name string) map[string]bool {
	raw, _ := os.ReadFile(name)
	lines := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		lines[strings.TrimSpace(line)] = true
	}
	return lines
}

// due says whether the n-th is one that fails, and notes that it does.
func (o *order) due(n, first, lasts uint64) bool {
	if n < first {
		return false
	}
	behind := n - first
	if o.Every > 0 {
		behind %= o.Every
	}
	if behind > lasts {
		return false
	}
	if o.Hits != "" {
		pointsMu.Lock()
		defer pointsMu.Unlock()
		appendLine(o.Hits, "hit")
	}
	return true
}

// write fails the store's write that is to fail.
func (o *order) write(n uint64, when store.Moment) error {
	if when != o.WriteWhen || !o.due(n, o.Write, o.WriteLasts) {
		return nil
	}
	return &os.PathError{Op: "write", Path: "the store", Err: o.WriteErrno}
}

// losing is a transport that loses one exchange.
type losing struct {
	next  http.RoundTripper
	order *order
}

var calls, requests atomic.Int64

// RoundTrip implements [http.RoundTripper].
func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.order.due(uint64(calls.Add(1)), uint64(l.order.Agent), 0) {
		return l.next.RoundTrip(r)
	}
	if l.order.Lost {
		if resp, err := l.next.RoundTrip(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	} else if r.Body != nil {
		r.Body.Close()
	}
	return nil, fmt.Errorf("dial: %w", syscall.ECONNRESET)
}

// loseRequests breaks off one request of a machine.
func (o *order) loseRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !o.due(uint64(requests.Add(1)), uint64(o.Machines), 0) {
			next.ServeHTTP(w, r)
			return
		}
		if o.Lost {
			next.ServeHTTP(nowhere{http.Header{}}, r)
		}
		panic(http.ErrAbortHandler)
	})
}

// nowhere is where answers go that are lost.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// hold keeps a small disk mounted at dir, which only this process sees, until
// the standard input ends. It must have been started in a mount namespace of
// its own. Others reach the disk below /proc/PID/root.
func hold(dir string, mib int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("prove", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0700", mib)); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	fmt.Println("open")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
