// Package conductor runs workflows on nodes, one at a time per node, and
// survives being killed at any moment.
package conductor
