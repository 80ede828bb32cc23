// Package store holds the appliance's domain types and keeps them in one
// file. It is the leaf of the module: it imports no other package of ours.
//
// Records are typed ([Table]) and live in an ordered key-value space with
// transactions. An embedded bbolt file is the one implementation today; no
// bbolt type leaves this package, so that another space (etcd) can take its
// place.
//
// Promises: what a returned Update, Batch or Flush has written survives
// kill -9; every record is sealed and authenticated (secrets never lie on the
// disk in clear); a damaged record is reported, never served.
package store
