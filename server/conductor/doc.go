// Package conductor runs workflows on nodes, one at a time per node, and
// survives being killed at any moment.
//
// A [Workflow] is a table of named steps that reads like its sequence diagram.
// A run (store.Run) is one execution of it on a node, and its journal: a step
// and the node's new provision state are saved in one transaction, after the
// step's messages. What is not saved is done again, so every step is written
// to bring something about rather than to do something: it looks first where
// doing twice would hurt.
//
// A step that must hear from its node returns an error made by pause; the
// node's next heartbeat, a time, or the deadline calls it again. No goroutine
// waits meanwhile. A step that fails for good, or an abort, sends the run
// through the workflow's steps for that case and then ends it in the failed
// state. A node's run, its reservation and its provision state are begun and
// ended in one transaction each, so that there is never a second run on a
// node.
//
// Machines are started, and write images, only so many at once; see admission.
// A machine that restarts by itself under its run is found out, and started
// again; see looks. A step that takes long gives its worker's place away.
//
// The conductor also answers the boot servers ([pxe.Booter]) and the ramdisk
// agents (lookup, heartbeat), reads power states now and then, and explains
// what goes on. It does not speak HTTP to clients: that is server/api.
package conductor
