//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
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
	// compared says which kinds have been found right on the disk.
	compared map[string]bool
}

func benchImages(t *testing.T, b *bench) {
	dir := t.TempDir()
	i := &imageBench{
		compared: map[string]bool{},
		dir:      dir, raw: filepath.Join(dir, "raw"), out: filepath.Join(dir, "out"), size: *benchSize << 20,
		client: fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}.Client(),
	}
	defer i.client.CloseIdleConnections()
	i.makeRaw(t)
	i.serve(t)
	i.measure(t, b, "raw", i.dd(t)...)
	i.makeZst(t)
	i.measure(t, b, "raw.zst", i.unpackers(t)...)
	qemu, missing := program("qemu-img", "qemu-utils")
	if missing != "" {
		b.add(row{Subject: "write qcow2", PeerName: missing, How: "nothing else here makes such a file"})
		return
	}
	qcow := filepath.Join(dir, "qcow2")
	if out, err := exec.Command(qemu, "convert", "-f", "raw", "-O", "qcow2", i.raw, qcow).CombinedOutput(); err != nil {
		t.Fatalf("make qcow2: %v: %s", err, out)
	}
	i.measure(t, b, "qcow2", imageTool{"qemu-img convert", i.tool(t, qemu, "convert", "-O", "raw", qcow, i.out)})
}

// An imageTool is how people write an image today.
type imageTool struct {
	name string
	run  func() time.Duration // nil: not installed, as the name says
}

// dd returns dd with the kernel's cache and, where the file system can, without.
func (i *imageBench) dd(t *testing.T) []imageTool {
	line := []string{"if=" + i.raw, "of=" + i.out, "bs=4M", "conv=fsync", "status=none"}
	tools := []imageTool{{"dd", i.tool(t, "dd", line...)}}
	f, err := os.OpenFile(i.raw, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return tools
	}
	_ = f.Close()
	return append(tools, imageTool{"dd oflag=direct", i.tool(t, "dd", append(line, "oflag=direct")...)})
}

// unpackers returns zstd into dd.
func (i *imageBench) unpackers(t *testing.T) []imageTool {
	zstd, missing := program("zstd", "zstd")
	if missing != "" {
		return []imageTool{{name: missing}}
	}
	return []imageTool{{"zstd -d, dd", i.pipe(t,
		[]string{zstd, "-dcq", filepath.Join(i.dir, "raw.zst")},
		[]string{"dd", "of=" + i.out, "bs=4M", "iflag=fullblock", "conv=fsync", "status=none"})}}
}

// measure writes one file in turns with some tools. Since ours never writes
// what it cannot verify, the first tool's time is also given with that of a
// sha256sum.
func (i *imageBench) measure(t *testing.T, b *bench, name string, tools ...imageTool) {
	t.Helper()
	file := filepath.Join(i.dir, name)
	sum, check := i.sum(t, file), i.tool(t, "sha256sum", file)
	plain, verified := make([][]float64, len(tools)), []float64(nil)
	ours, _ := pair(func() float64 { return i.rate(i.write(t, name, sum)) }, func() float64 {
		for k, tool := range tools {
			if tool.run == nil {
				continue
			}
			took := tool.run()
			plain[k] = append(plain[k], i.rate(took))
			if k == 0 {
				verified = append(verified, i.rate(took+check()))
			}
		}
		return 0
	})
	how := fmt.Sprintf("%d MiB, a quarter holes; ours by HTTP and verified, the peer neither; flushed", i.size>>20)
	for k, tool := range tools {
		b.add(row{Subject: "write " + name, Unit: "MB/s", Ours: ours, Peer: plain[k], PeerName: tool.name, How: how})
	}
	if verified != nil {
		b.add(row{Subject: "write " + name + ", both verified", Unit: "MB/s", Ours: ours, Peer: verified, PeerName: tools[0].name + ", sha256sum", How: "the same, and sha256sum of the peer's file"})
	}
}

func (i *imageBench) rate(took time.Duration) float64 { return mega(i.size) / took.Seconds() }

// write is ours, on a machine of 16 GiB whose disk is a file that is treated as
// Linux treats a real disk. The first time it compares the disk with the image.
func (i *imageBench) write(t *testing.T, name string, sum agentimage.Checksum) time.Duration {
	t.Helper()
	m := &hw.Fake{
		Hardware: wire.Inventory{Disks: []wire.Disk{{Name: "disk", Size: 2 * i.size}}},
		Files:    map[string]string{"disk": i.out},
		WriteOut: true,
	}
	d, err := m.OpenDisk("disk", true)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err = agentimage.Write(t.Context(), remoteImage{i.client, pxe.FileURL(i.url, name, pxe.FileImage)}, d, agentimage.Options{Checksum: sum, Memory: 2 << 30})
	took := time.Since(begun)
	if err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !i.compared[name] {
		i.compared[name] = true
		compare(t, name, openFile(t, i.raw), openFile(t, i.out), 0, i.size)
	}
	i.discard(t)
	return took
}

// tool runs a program that writes to the file out, or to nothing, and flushes
// what it wrote.
func (i *imageBench) tool(t *testing.T, name string, args ...string) func() time.Duration {
	return func() time.Duration {
		t.Helper()
		begun := time.Now()
		if said, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, said)
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
