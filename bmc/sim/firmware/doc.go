// Package firmware boots a simulated machine over the network as firmware and
// iPXE do: with DHCP packets as they are on the wire, TFTP, HTTP, and a
// boot script that it reads and follows. Nothing of it needs privileges.
//
// The network is a [Wire]: packets for ports 67 and 4011 are handed over as
// bytes, since those ports and raw frames are root's; everything else goes
// through sockets of the loopback, from the address that the machine has
// leased (127.64.0.0/10).
//
// It promises that what the machine boots was fetched byte by byte and is
// what the appliance meant to give: boot programs are told by their headers,
// kernel and initramfs by length and SHA-256.
//
// Waits are as long as those of real machines times [Config.Pace]. What the
// appliance itself takes, or a restart of it, is not: machines in a hurry have
// the patience for both.
//
// Not supported: ARP, DHCPv6, Secure Boot.
package firmware
