package httpd

import (
	"testing"

	"bessemer/pxe/ramdisk"
)

// Simulated machines say which architecture they are, as others do.
func TestStandInIsOfAnArchitecture(t *testing.T) {
	kernel, _ := ramdisk.StandIn()
	if got := kernelArch(kernel[:kernelHead]); got != "x86_64" {
		t.Errorf("the stand-in's kernel is for %q", got)
	}
}
