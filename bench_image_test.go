//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"bessemer/agent/fetch"
	"bessemer/agent/hw"
	agentimage "bessemer/agent/image"
	"bessemer/agent/wire"
	"bessemer/pxe"
)

// imageBench writes an image to a file: ours gets it from our HTTP server and
// checks it on the way, the tools read it from the disk and check nothing.
type imageBench struct {
	dir    string
	raw    string
	out    string // what is written
	size   int64  // of the disk image
	url    string // of the server, its token "NAME" giving the file of that name
	client *http.Client
}

func benchImages(t *testing.T, b *bench) {
	dir := t.TempDir()
	i := &imageBench{
		dir: dir, raw: filepath.Join(dir, "raw"), out: filepath.Join(dir, "out"), size: *benchSize << 20,
		client: fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}.Client(),
	}
	defer i.client.CloseIdleConnections()
	i.makeRaw(t)
	i.serve(t)
	dd := i.tool(t, []string{"dd", "if=" + i.raw, "of=" + i.out, "bs=4M", "conv=fsync", "status=none"})
	i.measure(t, b, "raw", dd, "dd")
	i.makeZst(t)
	unpack, name := i.pipe(t,
		[]string{"zstd", "-dcq", filepath.Join(dir, "raw.zst")},
		[]string{"dd", "of=" + i.out, "bs=4M", "iflag=fullblock", "conv=fsync", "status=none"}), "zstd -d, dd"
	if _, missing := program("zstd", "zstd"); missing != "" {
		unpack, name = nil, missing
	}
	i.measure(t, b, "raw.zst", unpack, name)
	qemu, missing := program("qemu-img", "qemu-utils")
	if missing != "" {
		b.add(row{Subject: "write qcow2", PeerName: missing, How: "nothing else here makes such a file"})
		return
	}
	qcow := filepath.Join(dir, "qcow2")
	if out, err := exec.Command(qemu, "convert", "-f", "raw", "-O", "qcow2", i.raw, qcow).CombinedOutput(); err != nil {
		t.Fatalf("make qcow2: %v: %s", err, out)
	}
	i.measure(t, b, "qcow2", i.tool(t, []string{qemu, "convert", "-O", "raw", qcow, i.out}), "qemu-img convert")
}

// measure writes one file in turns with a tool. Since ours never writes what
// it cannot verify, the tool's time is also given with that of a sha256sum.
func (i *imageBench) measure(t *testing.T, b *bench, name string, tool func() time.Duration, toolName string) {
	t.Helper()
	sum := i.sum(t, filepath.Join(i.dir, name))
	check := i.tool(t, []string{"sha256sum", filepath.Join(i.dir, name)})
	var verified []float64
	peer := func() float64 {
		took := tool()
		verified = append(verified, i.rate(took+check()))
		return i.rate(took)
	}
	if tool == nil {
		peer = nil
	}
	ours, plain := pair(func() float64 { return i.rate(i.write(t, name, sum)) }, peer)
	how := fmt.Sprintf("%d MiB, a quarter holes; ours by HTTP and verified, the peer neither; flushed", i.size>>20)
	b.add(row{Subject: "write " + name, Unit: "MB/s", Ours: ours, Peer: plain, PeerName: toolName, How: how})
	if tool != nil {
		b.add(row{Subject: "write " + name + ", both verified", Unit: "MB/s", Ours: ours, Peer: verified, PeerName: toolName + ", sha256sum", How: "the same, and sha256sum of the peer's file"})
	}
}

func (i *imageBench) rate(took time.Duration) float64 { return mega(i.size) / took.Seconds() }

// write is ours, on a machine of 4 GiB, and compares the disk with the image.
func (i *imageBench) write(t *testing.T, name string, sum agentimage.Checksum) time.Duration {
	t.Helper()
	m := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "disk", Size: i.size + 64<<20}}},
		Files:    map[string]string{"disk": i.out},
	}
	d, err := m.OpenDisk("disk", true)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = agentimage.Write(t.Context(), remoteImage{i.client, pxe.FileURL(i.url, name, pxe.FileImage)}, d, agentimage.Options{Checksum: sum, Memory: 512 << 20})
	took := time.Since(begun)
	if err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, name, openFile(t, i.raw), openFile(t, i.out), 0, i.size)
	i.discard(t)
	return took
}

// tool runs a program that writes to the file out, or to nothing, and flushes
// what it wrote.
func (i *imageBench) tool(t *testing.T, line []string) func() time.Duration {
	return func() time.Duration {
		t.Helper()
		begun := time.Now()
		if said, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line[0], err, said)
		}
		i.flush(t)
		took := time.Since(begun)
		i.discard(t)
		return took
	}
}

// pipe runs two programs, the output of one being the input of the other.
func (i *imageBench) pipe(t *testing.T, from, to []string) func() time.Duration {
	return func() time.Duration {
		t.Helper()
		a, z := exec.CommandContext(t.Context(), from[0], from[1:]...), exec.CommandContext(t.Context(), to[0], to[1:]...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		a.Stdout, z.Stdin = w, r
		begun := time.Now()
		for _, c := range []*exec.Cmd{a, z} {
			if err := c.Start(); err != nil {
				t.Fatalf("start %s: %v", c.Path, err)
			}
		}
		_, _ = r.Close(), w.Close() // theirs now
		for _, c := range []*exec.Cmd{a, z} {
			if err := c.Wait(); err != nil {
				t.Fatalf("%s: %v", c.Path, err)
			}
		}
		took := time.Since(begun)
		i.discard(t)
		return took
	}
}

func (i *imageBench) flush(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(i.out, os.O_WRONLY, 0)
	if os.IsNotExist(err) {
		return // a program that writes nothing
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func (i *imageBench) discard(t *testing.T) {
	t.Helper()
	if err := os.Remove(i.out); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
