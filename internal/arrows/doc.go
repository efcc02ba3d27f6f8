// Package arrows keeps the direction of imports in this module. It holds
// nothing but a test.
//
// The rule: arrows run one way. The store is the contract and knows nobody;
// backends know the store; the engine knows the store; workflow knows the
// engine; flow and worker know workflow.
//
//	store <- backends
//	store <- engine <- workflow <- (flow, worker)
//
// A database driver stays inside its backend, and code for tests stays inside
// conformance and workflowtest, so that a program carries one driver
// and no test code. The table of rules stands in arrows_test.go. A rule about a
// package that does not exist yet holds until there is one to break it.
package arrows
