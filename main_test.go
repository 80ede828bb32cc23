package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

var updateScripts = flag.Bool("update", false, "rewrite what the scripts in testdata/script compare with")

// TestStories drives the built program as people do: each script in
// testdata/script is a story. It needs neither root nor a network beside
// loopback. Beside testscript's own commands (of which stop ends a script) there
// are:
//
//	serve [FLAG...]         start the appliance and wait until it answers
//	halt, crash             end it as Ctrl-C or kill -9 does
//	file-limit BYTES        no file that the appliance writes may grow beyond that
//	bessemer ARG...         run the program, which must succeed
//	exits CODE ARG...       run the program, which must exit with CODE
//	until PATTERN ARG...    run the program until its output matches
//	begin NAME ARG...       run the program in the background; its output goes
//	                        to NAME.out and NAME.err
//	appears PATTERN FILE    wait until such a file matches
//	ends CODE NAME          wait until it ends, with CODE
//	interrupt CODE NAME     the same after Ctrl-C
//	steady FILE             keep the last output without what differs each time
//	post PATH BODY          send a request to the API as admin
//	hung                    listen on $HUNG and never answer
//	demo-url FILE           talk to the demo that has written FILE from now on
//	empty DIR               there must be nothing in a directory
func TestStories(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(bin, "bessemer"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *updateScripts,
		Setup:         func(e *testscript.Env) error { return newStory(e, bin) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve":      serveStory,
			"halt":       func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(storyOf(ts).end(os.Interrupt)) },
			"crash":      func(ts *testscript.TestScript, _ bool, _ []string) { storyOf(ts).kill() },
			"file-limit": fileLimit,
			"bessemer":   func(ts *testscript.TestScript, _ bool, args []string) { runStory(ts, 0, args) },
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				code, err := strconv.Atoi(args[0])
				ts.Check(err)
				runStory(ts, code, args[1:])
			},
			"until":     until,
			"begin":     begin,
			"appears":   appears,
			"ends":      ends,
			"interrupt": interrupt,
			"steady":    steady,
			"post":      post,
			"hung":      hung,
			"demo-url":  demoURL,
			"empty":     nothingIn,
		},
	})
}

// A story is what runs in the background of one script.
type story struct {
	cmd    *exec.Cmd            // the appliance
	others map[string]*exec.Cmd // what begin has begun
}

// newStory gives a script its environment, with the built program first in
// the path, and ports that nobody uses.
func newStory(e *testscript.Env, bin string) error {
	s := &story{others: map[string]*exec.Cmd{}}
	e.Values[storyKey{}] = s
	e.Defer(s.endAll)
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("TZ", "UTC")
	e.Setenv("BESSEMER_DATA_DIR", filepath.Join(e.WorkDir, "data"))
	e.Setenv("BESSEMER_RAMDISK_BUILD", "never")
	e.Setenv("BESSEMER_CONDUCTOR_HOSTNAME", "rack")
	port, err := freePort()
	e.Setenv("FREEPORT", strconv.Itoa(port))
	port, err2 := freePort()
	e.Setenv("APIPORT", strconv.Itoa(port))
	return errors.Join(err, err2)
}

type storyKey struct{}

func storyOf(ts *testscript.TestScript) *story { return ts.Value(storyKey{}).(*story) }

// serveStory starts the appliance on a port of the system's choice, which its
// banner tells.
func serveStory(ts *testscript.TestScript, _ bool, args []string) {
	s := storyOf(ts)
	s.cmd = built(ts, append([]string{"serve", "--api-listen", "127.0.0.1:0"}, args...))
	var log bytes.Buffer
	s.cmd.Stderr = &log
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "api" {
			url = f[1]
		}
	}
	if url == "" {
		s.kill()
		ts.Fatalf("the appliance did not start: %s", &log)
	}
	ts.Setenv("BESSEMER_URL", url)
	for range 500 { // its socket is open already
		if resp, err := http.Get(url + "/healthz"); err == nil {
			_ = resp.Body.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("the appliance does not answer at %s", url)
}

// fileLimit limits the appliance while it runs, as ulimit -f does before.
func fileLimit(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseUint(args[0], 10, 63)
	ts.Check(err)
	limit := unix.Rlimit{Cur: size, Max: unix.RLIM_INFINITY}
	ts.Check(unix.Prlimit(storyOf(ts).cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
}

// built is the built program, in the script's directory and environment.
func built(ts *testscript.TestScript, args []string) *exec.Cmd {
	bin, _, _ := strings.Cut(ts.Getenv("PATH"), string(os.PathListSeparator))
	cmd := exec.Command(filepath.Join(bin, "bessemer"), args...)
	cmd.Dir = ts.MkAbs(".")
	for _, k := range []string{
		"HOME", "TMPDIR", "TZ", "BESSEMER_URL", "BESSEMER_DATA_DIR", "BESSEMER_RAMDISK_BUILD", "BESSEMER_CONDUCTOR_HOSTNAME",
	} {
		if v := ts.Getenv(k); v != "" {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	return cmd
}

func begin(ts *testscript.TestScript, _ bool, args []string) {
	cmd := built(ts, args[1:])
	for ending, w := range map[string]*io.Writer{".out": &cmd.Stdout, ".err": &cmd.Stderr} {
		f, err := os.Create(ts.MkAbs(args[0] + ending))
		ts.Check(err)
		defer f.Close() // the program has its own
		*w = f
	}
	ts.Check(cmd.Start())
	storyOf(ts).others[args[0]] = cmd
}

func appears(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	for range 300 {
		if want.MatchString(ts.ReadFile(args[1])) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s never matched %s:\n%s", args[1], want, ts.ReadFile(args[1]))
}

func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(storyOf(ts).others[args[1]].Process.Signal(os.Interrupt))
	ends(ts, neg, args)
}

func ends(ts *testscript.TestScript, _ bool, args []string) {
	cmd := storyOf(ts).others[args[1]]
	delete(storyOf(ts).others, args[1])
	_ = cmd.Wait() // its exit code says it
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%s: exit code %s, want %s\n%s", args[1], got, args[0], ts.ReadFile(args[1]+".err"))
	}
}

// end sends the appliance a signal and waits for its end.
func (s *story) end(sig os.Signal) error {
	if s.cmd == nil {
		return errors.New("no appliance runs")
	}
	cmd := s.cmd
	s.cmd = nil
	if err := cmd.Process.Signal(sig); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the appliance ended with %w: %s", err, cmd.Stderr)
	}
	return nil
}

func (s *story) kill() { _ = s.end(syscall.SIGKILL) }

func (s *story) endAll() {
	s.kill()
	for _, cmd := range s.others {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// runStory runs the program, whose output the script may then look at.
func runStory(ts *testscript.TestScript, want int, args []string) {
	got := 0
	if err := ts.Exec("bessemer", args...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("run bessemer: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("bessemer %s: exit code %d, want %d", strings.Join(args, " "), got, want)
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	for range 300 {
		if err := ts.Exec("bessemer", args[1:]...); err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("bessemer %s: its output never matched %s", strings.Join(args[1:], " "), want)
}

// unsteady is what differs from one run to the next.
var unsteady = []struct {
	re   *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "TRACE"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d+(\.\d+)? (ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`(system|uptime|heap):? +.*`), "$1 VALUE"},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`(?m) +$`), ""},
}

func steady(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stdout")
	for _, u := range unsteady {
		text = u.re.ReplaceAllString(text, u.text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func post(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequest(http.MethodPost, ts.Getenv("BESSEMER_URL")+args[0], strings.NewReader(args[1]))
	ts.Check(err)
	req.SetBasicAuth("admin", strings.TrimSpace(ts.ReadFile(filepath.Join(ts.Getenv("BESSEMER_DATA_DIR"), "admin.secret"))))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		body, _ := io.ReadAll(resp.Body)
		ts.Fatalf("POST %s: %s: %s", args[0], resp.Status, body)
	}
}

// hung listens and takes connections, as a controller does that has crashed.
func hung(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			all = append(all, conn)
		}
		for _, c := range all {
			_ = c.Close()
		}
	}()
	ts.Defer(func() {
		_ = l.Close()
		<-done
	})
	ts.Setenv("HUNG", l.Addr().String())
}

func demoURL(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(`(?m)^API (http://\S+),`).FindStringSubmatch(ts.ReadFile(args[0]))
	if m == nil {
		ts.Fatalf("%s names no URL:\n%s", args[0], ts.ReadFile(args[0]))
	}
	ts.Setenv("BESSEMER_URL", m[1])
}

func nothingIn(ts *testscript.TestScript, _ bool, args []string) {
	left, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, e := range left {
		ts.Fatalf("%s is left in %s", e.Name(), args[0])
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
