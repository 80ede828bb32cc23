package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"bessemer/store"
)

// TestMain lets the test binary be the process that TestKill kills.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("STORE_TEST_DIR"); {
	case dir == "":
		os.Exit(m.Run())
	case os.Getenv("STORE_TEST_OPEN") != "":
		if _, err := store.Open(dir, store.Options{}); err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		if err := writeForEver(dir, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// writers is how many goroutines of the process write at once.
const writers = 4

// writeForEver stores pairs of nodes and records messages, and says on w what
// is acknowledged: "writer number sequence".
func writeForEver(dir string, w io.Writer) error {
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "open")
	errs := make(chan error)
	acks := make(chan string)
	for i := range writers {
		go func() { errs <- writePairs(db, i, acks) }()
	}
	for {
		select {
		case err := <-errs:
			return err
		case ack := <-acks:
			fmt.Fprintln(w, ack)
		}
	}
}

func writePairs(db *store.DB, writer int, acks chan<- string) error {
	for n := 1; ; n++ {
		seq := db.Record(context.Background(), store.Message{
			Trace: fmt.Sprint(writer), From: store.Conductor, To: store.BMC, Kind: store.Cast, Label: fmt.Sprint(n),
		})
		write := db.Update
		if writer%2 == 0 {
			write = db.Batch
		}
		err := write(func(tx *store.Tx) error {
			for _, half := range []string{"a", "b"} {
				v := &store.Node{UUID: fmt.Sprintf("%d%s", writer, half), Name: fmt.Sprintf("w%d-%s-%d", writer, half, n), Run: uint64(n)}
				if err := store.Nodes.Put(tx, v); err != nil {
					return err
				}
			}
			_, err := tx.NextID(fmt.Sprint("writer", writer))
			return err
		})
		if err != nil {
			return err
		}
		acks <- fmt.Sprintf("%d %d %d", writer, n, seq)
	}
}

// TestKill kills a process with SIGKILL while it writes, again and again:
// nothing that was acknowledged may be lost, no transaction torn, and the
// store must be sound each time.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	last := [writers]uint64{} // what was acknowledged before
	lastSeq := uint64(0)
	for round := range 12 {
		acked := killWriter(t, dir, time.Duration(rand.IntN(60))*time.Millisecond)
		problems, err := store.CheckFile(t.Context(), dir)
		if err != nil || len(problems) > 0 {
			t.Fatalf("round %d: %v, %v", round, problems, err)
		}
		db, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for w := range writers {
			n := pair(t, db, w)
			if n < acked[w].n {
				t.Errorf("round %d: writer %d has %d, but %d was acknowledged", round, w, n, acked[w].n)
			}
			if acked[w].n > 0 {
				last[w], lastSeq = n, max(lastSeq, acked[w].seq)
				checkMessages(t, db, w, acked[w])
			} else if n != last[w] && n == 0 {
				t.Errorf("round %d: writer %d lost what it had", round, w)
			}
		}
		if seq := db.LastMessage(); seq < lastSeq {
			t.Errorf("round %d: messages go on from %d, but %d was given out", round, seq, lastSeq)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An ack is what the process said last of a writer.
type ack struct{ n, seq uint64 }

func killWriter(t *testing.T, dir string, after time.Duration) [writers]ack {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_DIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acked [writers]ack
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the process said %q", lines.Text())
	}
	time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			continue // cut off by the kill
		}
		w, err1 := strconv.Atoi(f[0])
		n, err2 := strconv.ParseUint(f[1], 10, 64)
		seq, err3 := strconv.ParseUint(f[2], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			acked[w] = ack{n, seq}
		}
	}
	_ = cmd.Wait() // killed
	return acked
}

// pair returns the number that both halves of a writer's pair have.
func pair(t *testing.T, db *store.DB, writer int) uint64 {
	t.Helper()
	var n [2]uint64
	view(t, db, func(tx *store.Tx) error {
		for i, half := range []string{"a", "b"} {
			v, err := store.Nodes.Get(tx, fmt.Sprintf("%d%s", writer, half))
			if err != nil {
				return nil // none yet
			}
			n[i] = v.Run
			if byName, err := store.FindNode(tx, v.Name); err != nil || byName.UUID != v.UUID {
				t.Errorf("FindNode(%q) = %v, %v", v.Name, byName, err)
			}
		}
		return nil
	})
	if n[0] != n[1] {
		t.Errorf("a transaction of writer %d is torn: %d and %d", writer, n[0], n[1])
	}
	return n[0]
}

// checkMessages holds that the message recorded before an acknowledged
// transaction is on the disk too.
func checkMessages(t *testing.T, db *store.DB, writer int, a ack) {
	t.Helper()
	ms, err := db.TraceMessages(fmt.Sprint(writer), a.seq-1, 1, nil)
	if err != nil || len(ms) != 1 || ms[0].Seq != a.seq || ms[0].Label != fmt.Sprint(a.n) {
		t.Errorf("message %d of writer %d = %v, %v", a.seq, writer, ms, err)
	}
}
