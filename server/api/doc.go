// Package api serves the appliance's HTTP interfaces: Ironic's bare-metal API
// under /v1, our own under /api/v1, health and metrics; and, for the other
// listener, the few endpoints that a ramdisk may reach.
//
// Ironic's API is kept to the letter where its clients look: microversions
// 1.1 to 1.82, fields hidden below the version that brought them, errors
// encoded twice, 202 without a body. One resource is one file: its fields are
// a table ([resource]) from which lists, paging, sorting, projection and
// version gates follow, and its routes are lines in routes.go.
//
// Promises: secrets are masked before anything is projected; bodies are capped
// in size and depth before they are decoded; a refused request changes
// nothing; an internal fault tells the client a request id and no more.
package api
