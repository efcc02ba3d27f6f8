// Package patterns holds the code that docs/patterns.md explains, so that it
// compiles and is tested.
package patterns
