package sqlkit

import (
	"time"

	"github.com/pawlhq/pawl/store"
)

// NoAnswers returns the results of a call of Answers before any row was read: no run has received
// any of the signals.
func NoAnswers(p *store.AnswersParams) []store.AnswerResult {
	results := make([]store.AnswerResult, len(p.Asks))
	for i, a := range p.Asks {
		results[i].Err = NotFound("signal %v of run %v", a.Signal, a.Run)
	}
	return results
}

// AnswerRows reads the rows of the asks whose run has received the signal: the place of the ask,
// the run's status, when it was answered, whether the answer fits, and its output and failure. blob
// makes the destination of an output.
func AnswerRows(p *store.AnswersParams, results []store.AnswerResult, blob func(*[]byte) any) func(Scan) error {
	return func(scan Scan) error {
		var n int64
		var status int16
		var at time.Time
		var fits bool
		var a store.GivenAnswer
		if err := scan(&n, &status, Time(&at), &fits, blob(&a.Output), Failure(&a.Failure)); err != nil {
			return err
		}
		res := &results[n]
		*res = store.AnswerResult{Status: store.Status(status)}
		if !at.IsZero() {
			a.Signal, a.At = p.Asks[n].Signal, at
			res.Given, res.Omitted = &a, !fits
		}
		return nil
	}
}

// GivenRow returns the answer to a consumed signal that was read from its row, nil if it has none.
func GivenRow(id store.SignalID, at time.Time, output []byte, failure *store.Failure) *store.GivenAnswer {
	if at.IsZero() {
		return nil
	}
	return &store.GivenAnswer{Answer: store.Answer{Signal: id, Output: output, Failure: failure}, At: at}
}
