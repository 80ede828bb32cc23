// Package ipmi is the simulated management controller that speaks IPMI over
// LAN: RMCP+ (IPMI 2.0) with cipher suites 17 and 3, and IPMI 1.5 with MD5.
// It shows the same machine, sensors and event log as the simulated Redfish
// service.
//
// Key derivation and cipher are bougou/go-ipmi's; its server is not used. That
// starts a goroutine for each datagram, which nothing waits for or recovers
// from: a logged-in client that sends a cipher text of odd length ends the
// process. It also has no event log, no sensor readings and no timeout of the
// boot flags. Here one goroutine serves a socket, sessions are few and expire
// when the next one is asked for, and what is not logged in can make the
// server keep a few hundred bytes at most.
//
// Sections and tables in comments are those of the IPMI specification 2.0,
// revision 1.1.
package ipmi
