// Package testserver is what the test harnesses of real servers share: programs
// that are fetched where they are not installed, and processes that end with the
// one that has started them.
package testserver
