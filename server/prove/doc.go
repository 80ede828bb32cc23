// Package prove is the proving ground: its tests break the appliance, and what
// it stands on, in every way and at every moment that its promises name, and
// hold what comes of it against the journals of the world outside. See
// RELIABILITY.md.
//
// The appliance runs as a process of its own, which is this test binary
// started again, so that it can be killed as kill -9 does; the simulated rack
// lives on meanwhile. Ordinary test runs do a short version of each proof,
// make prove the long ones. Each proof prints a line, and its seed; what fails
// says how to run it again.
package prove
