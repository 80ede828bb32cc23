// Package flaw is what is wrong with a simulated machine: quirks, which are
// the known ways in which real controllers, firmware and disks misbehave, by
// the id that they have in the catalogue (B-02), and faults, which are injected
// and end (bmc-500:count=3). The parts of a machine ask its [Set] whether they
// are to misbehave now.
package flaw
