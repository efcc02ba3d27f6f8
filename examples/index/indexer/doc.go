// Package indexer is what the index example does to files: it lists a directory
// tree, measures one file, writes the report, and shows progress. It knows
// nothing of workflows; the example's main program makes each of these a durable
// step.
package indexer
