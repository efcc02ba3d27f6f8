package storetier

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/store"
)

// answers reads answers.
func (c *C) answers(p store.AnswersParams) []store.AnswerResult {
	c.Helper()
	p.Namespace = c.ns
	res, err := c.s.Answers(c.ctx, p)
	c.ok("Answers", err)
	if len(res) != len(p.Asks) {
		c.Fatalf("Answers of %d asks: saw %d results, expected one for each", len(p.Asks), len(res))
	}
	return res
}

// answer reads the answer to one signal that its run has received.
func (c *C) answer(run store.ID, sig store.SignalID) store.AnswerResult {
	c.Helper()
	res := c.answers(store.AnswersParams{Asks: []store.Ask{{Run: run, Signal: sig}}})[0]
	c.ok("Answers' item", res.Err)
	return res
}

// output is an answer with an output.
func output(sig store.SignalID, text string) store.Answer {
	return store.Answer{Signal: sig, Output: []byte(text)}
}

// given is the result for a signal of a run that is answered with an output.
func given(status store.Status, sig store.SignalID, text string, at time.Time) store.AnswerResult {
	return store.AnswerResult{Status: status, Given: &store.GivenAnswer{Answer: output(sig, text), At: at}}
}

// asked starts a run that has received a signal.
func (c *C) asked() (store.ClaimedRun, store.SignalID) {
	c.Helper()
	run := c.start()
	return run, c.signal(run.Run.ID, "n", "q")
}

// replies commits an answer of a run to a signal that the commit consumes.
func replies(run store.ClaimedRun, a store.Answer, t *store.Transition) store.Commit {
	return store.Commit{Lease: run.Lease, Seen: 1 << 20, Consumed: []store.SignalID{a.Signal}, Answers: []store.Answer{a}, Transition: t}
}

var answerCases = slices.Concat(answerBasics, answerRules, answerLives, answerReads)

var answerBasics = []Case{
	{"answer/given", "P25", "a commit that consumes a signal answers it, and who asks reads the answer, its time and the status of the run", func(c *C) {
		run, sig := c.asked()
		id := run.Run.ID
		c.eq("an unread signal", c.answer(id, sig), store.AnswerResult{Status: store.Running})
		c.advance(time.Second)
		c.commit(replies(run, output(sig, "yes"), nil))
		c.eq("the answer", c.answer(id, sig), given(store.Running, sig, "yes", c.now))
		c.advance(time.Second)
		c.end(run, complete("out"))
		c.eq("the answer when the run is final", c.answer(id, sig), given(store.Completed, sig, "yes", c.now.Add(-time.Second)))
		c.eq("signals", len(c.inbox(id).Signals), 0)
	}},
	{"answer/later", "P25", "a signal may be answered by a later commit than the one that consumed it, also under a later lease", func(c *C) {
		run := c.start()
		id := run.Run.ID
		a, b := c.signal(id, "n", "a"), c.signal(id, "n", "b")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{a, b}})
		c.eq("a consumed signal", c.answer(id, a), store.AnswerResult{Status: store.Running})
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Answers: []store.Answer{output(a, "1")}, Transition: sleepFor(time.Hour)})
		c.eq("the answer with a sleep", c.answer(id, a), given(store.Sleeping, a, "1", c.now))
		c.advance(time.Hour)
		run = c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Answers: []store.Answer{output(b, "2")}, Transition: complete("")})
		c.eq("the answer with the end", c.answer(id, b), given(store.Completed, b, "2", c.now))
	}},
	{"answer/of-many-runs", "P25", "the commits of one call answer the signals of their own runs", func(c *C) {
		const n = 7
		c.createN(n, store.NewRun{})
		var cms []store.Commit
		var p store.AnswersParams
		for i, run := range c.claimAll(n) {
			sig := c.signal(run.Run.ID, "n", "")
			var t *store.Transition
			if i%3 == 1 {
				t = complete("")
			} else if i%3 == 2 {
				t = sleepOn(store.WakeSignal)
			}
			cm := replies(run, output(sig, fmt.Sprint(i)), t)
			cm.Seen = 1
			cm.Steps = []store.StepRecord{step(1, "s", "")}
			cms, p.Asks = append(cms, cm), append(p.Asks, store.Ask{Run: run.Run.ID, Signal: sig})
		}
		c.allApplied(c.commits(cms...))
		for i, res := range c.answers(p) {
			status := []store.Status{store.Running, store.Completed, store.Sleeping}[i%3]
			c.eq(fmt.Sprint("answer ", i), res, given(status, p.Asks[i].Signal, fmt.Sprint(i), c.now))
		}
	}},
	{"answer/payloads", "P12", "outputs and failures of answers are returned unchanged: nil, empty, any bytes, and every field of a failure", func(c *C) {
		run := c.start()
		id := run.Run.ID
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		var list []store.Answer
		for _, a := range []store.Answer{
			{}, {Output: []byte{}}, {Output: every}, {Output: slices.Repeat([]byte("x"), min(100_000, c.s.Limits().Payload))},
			{Failure: &store.Failure{}}, {Failure: &store.Failure{Code: "c", Message: "m \x01 ü", Type: "t", Stack: "s", Details: []byte{0, 1}, Permanent: true}},
		} {
			a.Signal = c.signal(id, "n", "")
			list = append(list, a)
			c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{a.Signal}})
		}
		c.commit(store.Commit{Lease: run.Lease, Answers: list})
		for i, a := range list {
			got := c.answer(id, a.Signal)
			if got.Given == nil {
				c.Fatalf("answer %d: saw none", i)
			}
			c.bytes(fmt.Sprint("output ", i), got.Given.Output, a.Output)
			c.eq(fmt.Sprint("failure ", i), got.Given.Failure, a.Failure)
		}
	}},
	{"answer/too-large", "P12", "an answer of exactly the payload limit is stored; with a larger one nothing of its commit is", func(c *C) {
		run, sig := c.asked()
		limit := c.s.Limits().Payload
		res := c.tryCommit(replies(run, store.Answer{Signal: sig, Output: make([]byte, limit+1)}, nil))
		c.fails("an answer above the limit", res.Err, store.ErrTooLarge)
		res = c.tryCommit(replies(run, store.Answer{Signal: sig, Failure: &store.Failure{Message: string(make([]byte, store.MaxFailure+1))}}, nil))
		c.fails("a failure above the limit", res.Err, store.ErrTooLarge)
		c.eq("the signal", c.answer(run.Run.ID, sig), store.AnswerResult{Status: store.Running})
		c.eq("signals", payloads(c.inbox(run.Run.ID).Signals), []string{"q"})
		c.commit(replies(run, store.Answer{Signal: sig, Output: make([]byte, limit)}, nil))
		c.eq("bytes of the answer", len(c.answer(run.Run.ID, sig).Given.Output), limit)
	}},
}

var answerRules = []Case{
	{"answer/first-stays", "P25", "the first answer to a signal stays: a later one of another commit, lease or attempt is ignored, and its commit is applied", func(c *C) {
		run, sig := c.asked()
		id, want := run.Run.ID, given(store.Running, sig, "first", c.now)
		c.commit(replies(run, output(sig, "first"), nil))
		c.advance(time.Second)
		c.commit(store.Commit{Lease: run.Lease, Answers: []store.Answer{output(sig, "second")}})
		c.eq("the answer", c.answer(id, sig), want)
		c.commit(replies(run, store.Answer{Signal: sig, Failure: &store.Failure{Code: "x"}}, nil))
		c.eq("the answer", c.answer(id, sig), want)
		c.commit(store.Commit{Lease: run.Lease, Seen: 1, Transition: retryIn(0)})
		run = c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Answers: []store.Answer{output(sig, "third")}})
		c.eq("the answer", c.answer(id, sig), want)
		c.eq("steps", len(c.steps(id)), 1)
	}},
	{"answer/repeat", "P4", "a commit that is sent again with another answer changes nothing", func(c *C) {
		run, sig := c.asked()
		cm := replies(run, output(sig, "once"), nil)
		c.commit(cm)
		want := c.answer(run.Run.ID, sig)
		c.advance(time.Second)
		cm.Seq, cm.Answers = 1, []store.Answer{output(sig, "twice")}
		res := c.tryCommit(cm)
		c.ok("the repeat", res.Err)
		c.eq("Repeated", res.Repeated, true)
		c.eq("the answer", c.answer(run.Run.ID, sig), want)
	}},
	{"answer/fenced", "P2", "an answer under an old lease, or with a number that skips one, is not stored", func(c *C) {
		old, sig := c.asked()
		id := old.Run.ID
		c.commit(store.Commit{Lease: old.Lease, Consumed: []store.SignalID{sig}})
		c.advance(2 * aLease)
		run := c.claim1As("w2")
		c.fails("the zombie's answer", c.tryCommit(store.Commit{Lease: old.Lease, Seq: 2, Answers: []store.Answer{output(sig, "zombie")}}).Err, store.ErrLeaseLost)
		c.fails("an answer over a gap", c.tryCommit(store.Commit{Lease: run.Lease, Seq: 2, Answers: []store.Answer{output(sig, "gap")}}).Err, store.ErrLeaseLost)
		c.eq("the signal", c.answer(id, sig), store.AnswerResult{Status: store.Running})
		c.commit(store.Commit{Lease: run.Lease, Answers: []store.Answer{output(sig, "right")}})
		c.eq("the answer", c.answer(id, sig), given(store.Running, sig, "right", c.now))
	}},
	{"answer/not-consumed", "P25", "an answer to a signal that the run has not consumed or not received changes nothing, and the rest of its commit is applied", func(c *C) {
		run, sig := c.asked()
		id := run.Run.ID
		other, theirs := c.asked()
		c.commit(store.Commit{Lease: other.Lease, Consumed: []store.SignalID{theirs}})
		c.commit(store.Commit{Lease: run.Lease, Steps: []store.StepRecord{step(1, "a", "")}, Answers: []store.Answer{output(sig, "early"), output(theirs, "not mine"), output(store.NewID(), "whose")}})
		c.eq("the signal", c.answer(id, sig), store.AnswerResult{Status: store.Running})
		c.eq("the other run's signal", c.answer(other.Run.ID, theirs), store.AnswerResult{Status: store.Running})
		c.eq("signals", payloads(c.inbox(id).Signals), []string{"q"})
		c.eq("steps", len(c.steps(id)), 1)
		c.commit(replies(run, output(sig, "in time"), nil))
		c.eq("the answer", c.answer(id, sig), given(store.Running, sig, "in time", c.now))
	}},
	{"answer/atomic", "P3", "a commit that is refused stores no answer and consumes nothing", func(c *C) {
		run, sig := c.asked()
		cm := replies(run, output(sig, "x"), nil)
		cm.Steps = []store.StepRecord{step(1, "a", ""), step(2, "a", "")}
		c.fails("a step recorded twice", c.tryCommit(cm).Err, store.ErrInvalid)
		c.eq("the signal", c.answer(run.Run.ID, sig), store.AnswerResult{Status: store.Running})
		c.eq("signals", len(c.inbox(run.Run.ID).Signals), 1)
	}},
	{"answer/invalid", "P16", "an answer without a signal, with an output and a failure, or beside another one to the same signal is ErrInvalid, as is one in a commit that gives a run back; nothing is stored", func(c *C) {
		run, sig := c.asked()
		both := store.Answer{Signal: sig, Output: []byte{}, Failure: &store.Failure{Code: "x"}}
		for what, answers := range map[string][]store.Answer{
			"no signal": {{Output: []byte("x")}}, "both": {both}, "two": {output(sig, "a"), output(sig, "b")},
		} {
			cm := store.Commit{Lease: run.Lease, Consumed: []store.SignalID{sig}, Answers: answers}
			c.fails(what, c.tryCommit(cm).Err, store.ErrInvalid)
		}
		c.fails("given back", c.tryCommit(store.Commit{Lease: run.Lease, Answers: []store.Answer{output(sig, "a")}, Pin: misfit(), Transition: giveBack()}).Err, store.ErrInvalid)
		c.eq("signals", len(c.inbox(run.Run.ID).Signals), 1)
		for what, p := range map[string]store.AnswersParams{
			"no run":    {Namespace: c.ns, Asks: []store.Ask{{Signal: sig}}},
			"no signal": {Namespace: c.ns, Asks: []store.Ask{{Run: run.Run.ID}}},
			"no limit":  {Namespace: c.ns, MaxBytes: -1},
			"no name":   {},
			"too many":  {Namespace: c.ns, Asks: slices.Repeat([]store.Ask{{Run: run.Run.ID, Signal: sig}}, store.MaxBatch+1)},
		} {
			_, err := c.s.Answers(c.ctx, p)
			c.fails("Answers with "+what, err, store.ErrInvalid)
		}
	}},
	{"answer/race", "P25", "of holders and zombies that answer one signal at once one succeeds, and every reader sees the same answer", func(c *C) {
		for range 5 {
			old, sig := c.asked()
			id := old.Run.ID
			c.commit(store.Commit{Lease: old.Lease, Consumed: []store.SignalID{sig}})
			c.advance(2 * aLease)
			run := c.claim1As("w2")
			seen := make([][]string, 6)
			c.race(6, func(i int, s store.Store) error {
				cm := store.Commit{Lease: run.Lease, Seq: 1, Answers: []store.Answer{output(sig, fmt.Sprint(i))}}
				switch {
				case i >= 4:
					for range 10 {
						res, err := patient(c.ctx, func() ([]store.AnswerResult, error) {
							return s.Answers(c.ctx, store.AnswersParams{Namespace: c.ns, Asks: []store.Ask{{Run: id, Signal: sig}}})
						})
						if err != nil {
							return err
						}
						if res[0].Given != nil {
							seen[i] = append(seen[i], string(res[0].Given.Output))
						}
					}
					return nil
				case i%2 == 1:
					cm.Lease, cm.Seq = old.Lease, 2
				}
				res, err := c.tryCommitOn(s, cm)
				if errors.Is(res.Err, store.ErrLeaseLost) && i%2 == 1 {
					return err
				}
				return first(err, res.Err)
			})
			got := c.answer(id, sig)
			if got.Given == nil {
				c.Fatalf("the answer: saw none")
			}
			c.check(string(got.Given.Output) == "0" || string(got.Given.Output) == "2", "the answer: saw %q, expected one of the holder", got.Given.Output)
			for _, text := range slices.Concat(seen...) {
				c.eq("what a reader saw", text, string(got.Given.Output))
			}
			c.commit(store.Commit{Lease: run.Lease, Seq: 2, Seen: 1, Transition: complete("")})
		}
	}},
}

var answerLives = []Case{
	{"answer/lives-on", "P25", "an answer stays through sleeps, retries, crashes, continuations, a cancel and a restart, and an open question too", func(c *C) {
		run := c.start()
		id := run.Run.ID
		sig, open := c.signal(id, "n", "q"), c.signal(id, "n", "open")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{sig, open}, Steps: []store.StepRecord{step(1, "a", "")}, Answers: []store.Answer{output(sig, "yes")}})
		at := c.now
		kept := func(status store.Status) {
			c.Helper()
			c.eq("the answer", c.answer(id, sig), given(status, sig, "yes", at))
			c.eq("the open question", c.answer(id, open), store.AnswerResult{Status: status})
		}
		for _, t := range []*store.Transition{sleepFor(time.Second), retryIn(time.Second), continueWith("in"), release(), nil} {
			if t != nil {
				c.commit(store.Commit{Lease: run.Lease, Seen: 2, Transition: t})
			}
			c.advance(time.Hour)
			run = c.claim1()
			kept(store.Running)
		}
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Transition: failWith("x")})
		kept(store.Failed)
		c.ok("Restart", itemErr(c.tryRestart(id), nil))
		kept(store.Pending)
		run = c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Seen: 2, Answers: []store.Answer{output(open, "late"), output(sig, "no")}, Transition: complete("")})
		c.eq("the answer", c.answer(id, sig), given(store.Completed, sig, "yes", at))
		c.eq("the late answer", c.answer(id, open), given(store.Completed, open, "late", c.now))
	}},
	{"answer/unanswered-at-the-end", "P25", "a signal that a final run has not answered is told with the run's status, also to who sends it again", func(c *C) {
		for status, t := range map[store.Status]*store.Transition{store.Completed: complete(""), store.Failed: failWith("x"), store.Canceled: cancelRun()} {
			run, sig := c.asked()
			unread := c.signal(run.Run.ID, "n", "unread")
			c.commit(store.Commit{Lease: run.Lease, Seen: 2, Consumed: []store.SignalID{sig}, Transition: t})
			for _, id := range []store.SignalID{sig, unread} {
				c.eq("sent again", c.signals(store.NewSignal{ID: id, Run: run.Run.ID, Name: "n"})[0], store.SignalResult{Run: run.Run.ID})
				c.eq("the answer", c.answer(run.Run.ID, id), store.AnswerResult{Status: status})
			}
		}
	}},
	{"answer/purged", "P25", "the answers of a run are purged with it", func(c *C) {
		run, sig := c.asked()
		c.commit(replies(run, output(sig, "yes"), complete("")))
		c.advance(time.Hour)
		c.eq("purged", c.purge(store.PurgeParams{Limit: 10}), 1)
		res := c.answers(store.AnswersParams{Asks: []store.Ask{{Run: run.Run.ID, Signal: sig}}})[0]
		c.fails("the answer", res.Err, store.ErrNotFound)
		res.Err = nil
		c.eq("its result", res, store.AnswerResult{})
	}},
	{"answer/of-a-fork", "P25", "a fork has not received the signals of its original: its answers to them change nothing", func(c *C) {
		run, sig := c.asked()
		id := run.Run.ID
		c.commit(store.Commit{Lease: run.Lease, Seen: 1, Consumed: []store.SignalID{sig}, Steps: []store.StepRecord{step(1, "a", "")}, Transition: complete("")})
		twin := store.NewID()
		c.fork(store.ForkParams{ID: id, New: twin})
		fork := c.claim1()
		c.commit(store.Commit{Lease: fork.Lease, Answers: []store.Answer{output(sig, "twin")}})
		c.eq("the original's signal", c.answer(id, sig), store.AnswerResult{Status: store.Completed})
		c.fails("the fork's signal", c.answers(store.AnswersParams{Asks: []store.Ask{{Run: twin, Signal: sig}}})[0].Err, store.ErrNotFound)
	}},
	{"export/answers", "P25", "Sent returns a consumed signal with its answer", func(c *C) {
		run := c.start()
		id := run.Run.ID
		a, b, d := c.signal(id, "n", "a"), c.signal(id, "n", "b"), c.signal(id, "n", "d")
		c.commit(store.Commit{Lease: run.Lease, Consumed: []store.SignalID{a, b, d}, Answers: []store.Answer{output(a, "1"), {Signal: d, Failure: &store.Failure{Code: "no", Message: "never"}}}})
		at := c.now
		got := c.sent(store.SentParams{Run: id}).Signals
		for i := range got {
			got[i].Position = 0
		}
		c.eq("signals", got, []store.SentSignal{
			{Signal: store.Signal{ID: a}, Consumed: true, Given: &store.GivenAnswer{Answer: output(a, "1"), At: at}},
			{Signal: store.Signal{ID: b}, Consumed: true},
			{Signal: store.Signal{ID: d}, Consumed: true, Given: &store.GivenAnswer{Answer: store.Answer{Signal: d, Failure: &store.Failure{Code: "no", Message: "never"}}, At: at}},
		})
	}},
	{"import/answers", "P25", "an imported run has the answers that it gave, and answers what it had not", func(c *C) {
		c.importer(c.s)
		rec := c.aRecord(store.Sleeping)
		a, b, open := store.NewID(), store.NewID(), store.NewID()
		rec.Run.Deadline = time.Time{}
		rec.Consumed = []store.SignalID{a, b, open}
		at := c.now.Add(-time.Hour)
		failure := store.GivenAnswer{Answer: store.Answer{Signal: b, Failure: &store.Failure{Code: "no"}}, At: at}
		rec.Answers = []store.GivenAnswer{{Answer: output(a, "1"), At: at}, failure}
		c.imports(rec)
		id := rec.Run.ID
		c.eq("an answer", c.answer(id, a), given(store.Paused, a, "1", at))
		c.eq("a failure", c.answer(id, b), store.AnswerResult{Status: store.Paused, Given: &failure})
		c.eq("an open question", c.answer(id, open), store.AnswerResult{Status: store.Paused})
		c.eq("an unread signal", c.answer(id, rec.Signals[0].ID), store.AnswerResult{Status: store.Paused})
		c.resume(id)
		run := c.claim1()
		c.commit(store.Commit{Lease: run.Lease, Answers: []store.Answer{output(open, "2"), output(a, "again")}})
		c.eq("the late answer", c.answer(id, open), given(store.Running, open, "2", c.now))
		c.eq("the answer", c.answer(id, a), given(store.Running, a, "1", at))
		for what, answers := range map[string][]store.GivenAnswer{
			"of an unread signal": {{Answer: output(rec.Signals[0].ID, ""), At: at}}, "twice": {{Answer: output(a, ""), At: at}, {Answer: output(a, ""), At: at}}, "without a time": {{Answer: output(a, "")}},
		} {
			bad := c.aRecord(store.Failed)
			bad.Consumed, bad.Answers = rec.Consumed, answers
			_, err := c.importer(c.s).Import(c.ctx, store.ImportParams{Namespace: c.ns, Record: bad, Now: c.now})
			c.fails("an answer "+what, err, store.ErrInvalid)
		}
	}},
}

var answerReads = []Case{
	{"answer/unknown", "P16", "an ask for a run or a signal that does not exist is ErrNotFound, and the other asks of the call are answered", func(c *C) {
		run, sig := c.asked()
		other, theirs := c.asked()
		c.commit(replies(run, output(sig, "yes"), nil))
		res := c.answers(store.AnswersParams{Asks: []store.Ask{
			{Run: run.Run.ID, Signal: sig}, {Run: store.NewID(), Signal: sig}, {Run: run.Run.ID, Signal: store.NewID()},
			{Run: run.Run.ID, Signal: theirs}, {Run: other.Run.ID, Signal: theirs}, {Run: run.Run.ID, Signal: sig},
		}})
		want := given(store.Running, sig, "yes", c.now)
		c.eq("the first", res[0], want)
		c.eq("the last, which is the same", res[5], want)
		c.eq("the other run's", res[4], store.AnswerResult{Status: store.Running})
		for _, i := range []int{1, 2, 3} {
			c.fails(fmt.Sprint("ask ", i), res[i].Err, store.ErrNotFound)
			res[i].Err = nil
			c.eq(fmt.Sprint("result ", i), res[i], store.AnswerResult{})
		}
		c.eq("asks of no call", len(c.answers(store.AnswersParams{})), 0)
	}},
	{"answer/other-namespace", "P15", "answers of another namespace do not exist", func(c *C) {
		run, sig := c.asked()
		c.commit(replies(run, output(sig, "yes"), nil))
		res, err := c.s.Answers(c.ctx, store.AnswersParams{Namespace: c.ns + "-other", Asks: []store.Ask{{Run: run.Run.ID, Signal: sig}}})
		c.ok("Answers", err)
		c.fails("the ask", res[0].Err, store.ErrNotFound)
	}},
	{"answer/bounded", "P12", "an answer that would exceed MaxBytes is omitted, with those after it; the first one is complete", func(c *C) {
		run := c.start()
		id := run.Run.ID
		var asks []store.Ask
		var answers []store.Answer
		open := c.signal(id, "n", "")
		asks = append(asks, store.Ask{Run: id, Signal: open})
		for i := range 5 {
			sig := c.signal(id, "n", "")
			asks, answers = append(asks, store.Ask{Run: id, Signal: sig}), append(answers, store.Answer{Signal: sig, Output: slices.Repeat([]byte{byte(i)}, 1000)})
		}
		answers[4].Output = nil
		consumed := make([]store.SignalID, len(answers))
		for i := range answers {
			consumed[i] = answers[i].Signal
		}
		c.commit(store.Commit{Lease: run.Lease, Consumed: consumed, Answers: answers})
		for limit, whole := range map[int]int{0: 5, 1: 1, 999: 1, 1000: 1, 1999: 1, 2000: 2, 3500: 3, 4000: 5} {
			res := c.answers(store.AnswersParams{Asks: asks, MaxBytes: limit})
			c.eq("an open question", res[0], store.AnswerResult{Status: store.Running})
			for i, r := range res[1:] {
				a := answers[i]
				if i >= whole {
					a.Output = nil
				}
				c.eq(fmt.Sprintf("answer %d of at most %d bytes", i, limit), r, store.AnswerResult{Status: store.Running, Given: &store.GivenAnswer{Answer: a, At: c.now}, Omitted: i >= whole})
			}
		}
	}},
	{"answer/many", "P25", "a run answers more signals in one commit, and a call asks for more, than a page has", func(c *C) {
		run := c.start()
		id := run.Run.ID
		const n = store.MaxPage + 700
		sigs, asks, answers, consumed := make([]store.NewSignal, n), make([]store.Ask, n), make([]store.Answer, n), make([]store.SignalID, n)
		for i := range sigs {
			sigs[i] = store.NewSignal{ID: store.NewID(), Run: id, Name: "n"}
			asks[i], answers[i], consumed[i] = store.Ask{Run: id, Signal: sigs[i].ID}, output(sigs[i].ID, fmt.Sprint(i)), sigs[i].ID
		}
		for from := 0; from < n; from += 500 {
			c.signals(sigs[from:min(from+500, n)]...)
		}
		c.commit(store.Commit{Lease: run.Lease, Consumed: consumed, Answers: answers})
		for i, r := range c.answers(store.AnswersParams{Asks: asks}) {
			if r.Given == nil || string(r.Given.Output) != fmt.Sprint(i) {
				c.Fatalf("answer %d: saw %s, expected %d", i, show(r), i)
			}
		}
	}},
	{"answer/of-one-moment", "P25", "a reader that sees a run final sees every answer that the run has given", func(c *C) {
		for range c.answerRounds() {
			run, sig := c.asked()
			id := run.Run.ID
			c.race(3, func(i int, s store.Store) error {
				if i == 0 {
					res, err := c.tryCommitOn(s, store.Commit{Lease: run.Lease, Seq: 1, Seen: 1, Consumed: []store.SignalID{sig}, Answers: []store.Answer{output(sig, "yes")}, Transition: complete("")})
					return first(err, res.Err)
				}
				for range 20 {
					res, err := patient(c.ctx, func() ([]store.AnswerResult, error) {
						return s.Answers(c.ctx, store.AnswersParams{Namespace: c.ns, Asks: []store.Ask{{Run: id, Signal: sig}}})
					})
					if err != nil {
						return err
					}
					if res[0].Err != nil || res[0].Status.Final() != (res[0].Given != nil) {
						return fmt.Errorf("the run is %v, and its answer, which came with its end, is %v", res[0].Status, res[0].Given)
					}
				}
				return nil
			})
		}
	}},
}

// answerRounds is the number of rounds of a race of answers.
func (c *C) answerRounds() int {
	if kit.Race {
		return 3
	}
	return 10
}
