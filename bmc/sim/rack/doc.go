// Package rack is simulated machines that a whole appliance can work on, many
// in one process, without privileges or hardware.
//
// A [Machine] has a controller on an address of its own, power, firmware that
// boots over the network for real (package firmware), the real agent on
// simulated hardware (package hardware), and disks that are sparse files. After
// a deploy it boots its disk, and phones home only when what is on it is right
// (package tinyos). What happened to it is in its journal, which is a witness
// independent of the appliance's own records.
//
// A [Rack] keeps its machines in a directory. One that is killed, by SIGKILL
// too, comes back from it as after a power cut: machines that were on start
// again. Nothing is synced to the medium, so a crash of the host may lose
// changes.
//
// Everything random about a machine, its agent's pauses too, comes from the
// rack's seed and the machine's index, but for the secrets of connections and
// the ids of what is made (tokens, keys, sessions, partitions). Faults that were
// injected, and what a controller keeps beside power and boot settings (log,
// BIOS attributes, virtual media), end with the rack.
//
// A machine that is off costs a goroutine, of its controller; one whose system
// runs costs no more.
package rack
