//go:build race

package procs

// raced: the race detector slows the SQLite driver, which is C turned into Go, to
// a tenth of its speed or less.
const raced = true
