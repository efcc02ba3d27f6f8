//go:build !race

package conformance

const race = false
