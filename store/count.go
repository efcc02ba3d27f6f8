package store

// Counter is implemented by backends that count what they ask of their server, where
// that is paid for. The counts grow from when the store was opened.
type Counter interface {
	// Counts returns the counts, each time the same ones in the same order.
	Counts() []Count
}

// Count is one of a store's counts.
type Count struct {
	Name  string // lower case with points or underscores, as part of a metric's name
	About string // what is counted: a sentence
	Unit  string // in UCUM's form: "{row}"
	Value int64
}
