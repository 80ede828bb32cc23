// Package dhcp answers DHCPv4 on the provisioning interface: it gives
// addresses (full mode) and says what to boot (full and proxy mode).
//
// It is coredhcp as a library: configuration, plugin registration and the
// handler type are coredhcp's, and our two plugins ("bessemer-address",
// "bessemer-boot") form the chain. Only coredhcp's socket loop is replaced
// (server.go, socket.go): it hands DECLINE to no plugin, tells none of them the
// interface or the peer, runs each packet in a goroutine of its own without
// recover, and shares port 67 with any other server unnoticed.
//
// Promises: an acknowledged address is in the store before the client hears
// of it, so no restart gives it away twice; enrolled ports keep their address
// and draw from a part of the range that unknown machines cannot exhaust; a
// packet can neither end the process nor hold a worker. What a machine boots
// is asked of the pxe.Booter for every packet.
//
// Not supported: DHCPv6, BOOTP without option 53, LEASEQUERY.
package dhcp
