package store

import "context"

// Exporter is implemented by backends whose runs can be exported with all that belongs to
// them: what no other method tells.
type Exporter interface {
	// Sent returns the signals that a run has had, in the order of sending, consumed ones
	// too. ErrNotFound. Cases: export/sent, export/sent-pages.
	Sent(ctx context.Context, p SentParams) ([]SentSignal, error)
}

// SentParams is the input of [Exporter.Sent]: the signals of a run with a Position above
// After, at most Limit.
type SentParams struct {
	Namespace string
	Run       ID
	After     int64 // 0 begins
	Limit     int   // 0: 100; at most MaxPage
}

// SentSignal is a signal that a run has had. Of a consumed one only the ID and the
// Position are known.
type SentSignal struct {
	Signal
	Consumed bool
}

// Validate checks the call.
func (p *SentParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}
