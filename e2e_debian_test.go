//go:build linux

package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A distribution's own image with cloud-init is deployed: it takes its host
// name and user data from the config drive, and its root partition grows to
// the disk's size, up to the config drive.
func TestE2EDebian(t *testing.T) {
	if _, err := os.Stat(filepath.Join(*imageDir, "debian.sha256")); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no Debian image in %s: make images-debian builds it", *imageDir)
	}
	t.Parallel()
	r := newRack(t, "BESSEMER_CONDUCTOR_AUTOMATED_CLEAN=false")
	n := r.addBIOS("bios-1")
	n.enroll(t)
	n.provision(t, "manage", nil, "manageable")
	n.provision(t, "provide", nil, "available")
	begun := time.Now()
	mark := n.startDeploy(t, "debian.raw.zst", "by-cloud-init")
	n.waitState(t, 15*time.Minute, "active")
	t.Logf("active after %.1f s", time.Since(begun).Seconds())
	got := n.checkBooted(t, mark, driveFacts("by-cloud-init"))
	t.Logf("up after %.1f s: %v", time.Since(begun).Seconds(), got)
	image, err := os.Stat(filepath.Join(*imageDir, "debian.raw"))
	if err != nil {
		t.Fatal(err)
	}
	const less = 256 << 20 // what the file system itself takes, the config drive, the ESP
	size := n.machine.Spec().Disks[0].Size
	root, err := strconv.ParseInt(got["root_mib"], 10, 64)
	if err != nil || root<<20 < size-less || root<<20 <= image.Size() {
		t.Errorf("the root file system has %q MiB on a disk of %d (%v); the image had %d", got["root_mib"], size>>20, err, image.Size()>>20)
	}
	if got["user_ran"] != "yes" {
		t.Error("the script in the user data has not run")
	}
}
