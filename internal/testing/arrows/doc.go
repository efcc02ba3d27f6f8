// Package arrows checks the direction of imports in this module. It contains only a test.
//
// Imports have one direction. The store is the contract and imports no other package; the backends
// import the store; the engine imports the store; workflow imports the engine; flow and worker
// import workflow.
//
//	store <- backends
//	store <- engine <- workflow <- (flow, worker)
//
// A database driver stays inside its backend, and code for tests stays inside conformance and
// workflowtest, so that a program contains one driver and no test code. The table of rules is in
// arrows_test.go. A rule about a package that does not exist yet holds until the package exists and
// breaks it.
package arrows
