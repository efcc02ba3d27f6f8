//go:build race

package conformance

const race = true
