//go:build !race

package procs

const raced = false
