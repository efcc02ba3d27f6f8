// Package sim simulates Pawl: the unchanged engine and workers run on a store in memory inside a
// testing/synctest bubble, where hours pass at once. A number, the seed, decides the workload, the
// processes, and which call of the store is hit by which fault. Each call is checked when it is
// applied, and the final contents of the store are checked after all faults have ended.
//
// The section "Simulation" of docs/testing.md says what the simulation finds, and what a seed
// repeats and does not repeat.
package sim
