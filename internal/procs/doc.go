// Package procs tests what several worker processes do with one database. Its
// tests start their own binary again as workers.
package procs
