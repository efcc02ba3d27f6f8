package store

// Counter is implemented by backends that count their requests to a server that charges for them.
// Without it, there are no such metrics.
type Counter interface {
	// Counts returns the counts since the store was opened, each time the same ones in the same
	// order. No count ever decreases. Counts does not access the database and cannot fail.
	Counts() []Count
}

// Count is one of a store's counts.
type Count struct {
	Name  string // lower case with points or underscores, as part of a metric's name
	About string // what is counted: a sentence
	Unit  string // in UCUM notation: "{row}"
	Value int64
}
