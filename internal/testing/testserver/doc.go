// Package testserver contains what the test harnesses of real servers share: fetching programs that
// are not installed, and processes that end with the process that has started them.
package testserver
