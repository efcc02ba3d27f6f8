// Package funclen checks that no function of the repository is longer than a screen. It contains
// only a test.
package funclen
