// Package procs tests several worker processes on one database. Its tests start their own binary
// again as workers.
package procs
