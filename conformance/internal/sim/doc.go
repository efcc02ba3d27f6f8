// Package sim simulates Pawl: the engine and the workers, unchanged, on a store
// in memory inside a testing/synctest bubble, where hours pass in no time. One
// number, the seed, decides the workload, the processes, and which call of the
// store meets which fault. Everything that reaches the store is checked when it
// is applied, and what is left is checked when all faults have healed.
//
// The section "Simulation" of docs/testing.md says what it finds, what a seed
// repeats and what it does not.
package sim
