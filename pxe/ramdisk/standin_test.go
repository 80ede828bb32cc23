package ramdisk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
)

// TestStandIn holds the stand-in to being a kernel image and an archive by
// their headers, and to its bytes: racks of another process compare them.
func TestStandIn(t *testing.T) {
	kernel, initrd := StandIn()
	if v := kernelVersion(kernel); v != "0.0.0-standin" {
		t.Errorf("the kernel says it is version %q", v)
	}
	again, archive := StandIn()
	if !bytes.Equal(kernel, again) || !bytes.Equal(initrd, archive) {
		t.Error("it differs from one start to the next")
	}
	if n := len(kernel) + len(initrd); n < 1<<20 || n > 2<<20 {
		t.Errorf("%d bytes to boot", n)
	}
	var names []string
	r := cpio.Newc.Reader(bytes.NewReader(initrd))
	for {
		rec, err := r.ReadRecord()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, rec.Name)
	}
	if len(names) != 5 || names[0] != "init" {
		t.Errorf("files %v", names)
	}
	sum := sha256.Sum256(append(kernel, initrd...))
	if got := hex.EncodeToString(sum[:]); got != "723fef7852f7d260ff13bfc172bbc6657913aeb2add83d791d32f81434a29b9d" {
		t.Errorf("together it has SHA-256 %s", got)
	}
}
