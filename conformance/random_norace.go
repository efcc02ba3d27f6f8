//go:build !race

package conformance

const (
	randomRounds = 3
	manyItems    = 10_000 // of a map that several processes work on
)
