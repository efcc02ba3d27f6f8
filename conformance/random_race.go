//go:build race

package conformance

const (
	randomRounds = 1
	manyItems    = 600 // of a map that several processes work on
)
