//go:build race

package sim_test

const race = true
