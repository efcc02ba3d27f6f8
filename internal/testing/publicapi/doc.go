// Package publicapi tests the public API of the module: no public package exposes a type of an
// internal one, and every exported name has a doc comment.
package publicapi
