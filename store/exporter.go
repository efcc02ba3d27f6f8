package store

import "context"

// Exporter is implemented by backends whose runs can be exported with everything that belongs to
// them: it returns what no other method does. ([Streamer.ReadStream] returns the items of all streams.) Without it, runs cannot be moved from the backend.
type Exporter interface {
	// Sent returns the signals that a run has received, in the order of sending, including consumed
	// ones: those with a Position above After, at most Limit of them. For a consumed signal only
	// the ID, the Position and the answer, if there is one, are known. A page of Limit signals has a Next, which is the After of
	// the next page; on a shorter page, the last one, Next is zero. P14: the pages contain each
	// signal once.
	//
	// It returns ErrNotFound if there is no such run.
	Sent(ctx context.Context, p SentParams) (SentPage, error)
}

// SentParams is the input of [Exporter.Sent].
type SentParams struct {
	Namespace string
	Run       ID
	After     int64 // Next of the previous page; 0: from the beginning
	Limit     int   // 0: 100; at most MaxPage
}

// SentPage is a page of signals; Next is zero on the last one.
type SentPage struct {
	Signals []SentSignal
	Next    int64 // the Position of the last signal of a full page
}

// PageOf makes the page of the signals that p has selected.
func (p *SentParams) PageOf(signals []SentSignal) SentPage {
	page := SentPage{Signals: signals}
	if limit, err := Page(p.Limit); err == nil && len(signals) == limit {
		page.Next = signals[limit-1].Position
	}
	return page
}

// SentSignal is a signal that a run has received. For a consumed one only the ID, the Position and
// the answer are known.
type SentSignal struct {
	Signal
	Consumed bool
	Given    *GivenAnswer // to a consumed signal; nil: it is not answered
}

// Validate checks the call.
func (p *SentParams) Validate() error {
	_, err := Page(p.Limit)
	return first(ValidateName("namespace", p.Namespace), err)
}
