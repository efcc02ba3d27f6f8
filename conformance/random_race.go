//go:build race

package conformance

const randomRounds = 1
