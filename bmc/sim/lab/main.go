//go:build linux

package lab

import (
	"fmt"
	"os"
	"testing"
)

// chassisEnv, when set, makes the test's program act as the chassis control
// program of an ipmi_sim; its value is the socket of the machine.
const chassisEnv = "BESSEMER_LAB_CHASSIS"

var mainCalled bool

// Main is the TestMain of a package that uses labs. [Lab.IPMISim] runs the
// test's own program for every chassis command; and labs go even when the tests
// are interrupted.
func Main(m *testing.M) {
	mainCalled = true
	socket := os.Getenv(chassisEnv)
	if socket == "" {
		removeOwnLabs()
		os.Exit(m.Run())
	}
	if err := askChassis(socket, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chassis control:", err)
		os.Exit(1)
	}
}
