package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// Update is a kind of request to runs: a signal with a payload of type In that the run answers with
// an Out or an error.
//
//	var Deposit = workflow.NewUpdate[Amount, Balance]("deposit")
//
// Requests wait until the run receives them, in the order in which they were sent, as signals do.
// Each is received once and answered at most once. The answer is part of the run's record: it stays
// for as long as the run, and who asks again with the same [SendKey] gets the same answer.
//
// A request that cannot be decoded into In is refused: it is answered with a failure that has the
// code [CodeDecode], and the run's code does not see it.
type Update[In, Out any] struct{ name string }

// NewUpdate returns a kind of request. A name that is not valid, or is longer than 248 bytes, is
// reported when the update is used. Signals and updates of one name are the same signals.
func NewUpdate[In, Out any](name string) Update[In, Out] { return Update[In, Out]{name} }

// Name returns the update's name.
func (u Update[In, Out]) Name() string { return u.name }

// CodeRefused is the code of the failure with which [Validate] refuses a request, unless the error
// has a code of its own: see [Coded].
const CodeRefused = "refused"

// CodeAnswered is the code of the failure in the record of a second answer to one request; see
// [ErrAnswered].
const CodeAnswered = "answered"

// ErrAnswered means that the code has answered the request before.
var ErrAnswered = errAnswered() // "the request is already answered"

func errAnswered() error { return exec.ErrAnswered }

// Request is a request that a run has received. The run answers it with [Request.Answer].
type Request[In, Out any] struct {
	In   In
	id   store.SignalID
	name string
}

// ID returns the ID of the signal that carried the request.
func (r Request[In, Out]) ID() store.SignalID { return r.id }

// Answer answers the request: with out, or with the failure that err makes if it is not nil. The
// answer is recorded with the run's other operations, so that a replay does not answer again.
//
// Answer fails with [ErrAnswered], which is recorded, if the code has answered the request already;
// with store.ErrTooLarge; with [ErrCanceled] or [ErrDeadline]; or if out cannot be encoded. If a step
// fails and the run is tried again, the code may answer anew a request that it has answered before the
// retry: that succeeds, and who asked keeps the first answer.
func (r Request[In, Out]) Answer(ctx Context, out Out, err error) error {
	if r.id.IsZero() {
		return store.Invalid("request", "it is the zero Request, which was not received")
	}
	a := store.Answer{Signal: r.id}
	if err != nil {
		a.Failure = exec.Fail(err)
	} else {
		data, err := ctx.codec.Marshal(out)
		if ctx.branch.Invocation().Check(err) != nil {
			return fmt.Errorf("the answer to update %q, a %T, cannot be encoded: %w", r.name, out, err)
		}
		if a.Output = data; data == nil {
			a.Output = []byte{}
		}
	}
	return public(ctx.branch.Answer(r.name, a))
}

// UpdateOption configures how a run receives requests.
type UpdateOption[In any] func(*receiving[In])

type receiving[In any] struct{ check func(In) error }

// Validate sets a function that may refuse a request before the run receives it. A request for which
// it returns an error is answered with that error, whose code is [CodeRefused] unless it has one of
// its own, and the wait continues. Nothing else is recorded. The function must not change anything,
// and must not use operations of this package. It is not called in a replay.
func Validate[In any](check func(In) error) UpdateOption[In] {
	return func(r *receiving[In]) { r.check = check }
}

// Receive waits for the next request of this kind and takes it, as [Signal.Receive] does. The caller
// must answer it.
func (u Update[In, Out]) Receive(ctx Context, opts ...UpdateOption[In]) (Request[In, Out], error) {
	return u.receive(ctx, -1, opts)
}

// ReceiveTimeout is [Update.Receive] that waits for at most d, counted from the first time that the
// run reaches it. Then it fails with [ErrTimeout], which is recorded. A request that is refused does
// not end the wait.
func (u Update[In, Out]) ReceiveTimeout(ctx Context, d time.Duration, opts ...UpdateOption[In]) (Request[In, Out], error) {
	return u.receive(ctx, max(d, 0), opts)
}

func (u Update[In, Out]) receive(ctx Context, d time.Duration, opts []UpdateOption[In]) (Request[In, Out], error) {
	var req Request[In, Out]
	c := u.Into(&req, opts...)
	if c.err != nil {
		return req, c.err
	}
	timedOut, err := ctx.branch.Receive(c.on, d, func(framed []byte) error { return c.take(ctx.codec, framed) })
	switch {
	case err != nil:
		return Request[In, Out]{}, public(err)
	case timedOut:
		return Request[In, Out]{}, fmt.Errorf("update %q: %w", u.name, ErrTimeout)
	}
	return req, nil
}

// Handle waits for the next request of this kind, calls fn and answers with what it returns. fn may
// use operations of this package. If one of them fails because the run is canceled or past its
// deadline, the request stays unanswered, and Handle returns that error. Otherwise an error of fn is
// the answer, and Handle returns nil.
func (u Update[In, Out]) Handle(ctx Context, fn func(Context, In) (Out, error), opts ...UpdateOption[In]) error {
	req, err := u.Receive(ctx, opts...)
	if err != nil {
		return err
	}
	out, err := fn(ctx, req.In)
	return req.Answer(ctx, out, err)
}

// Into returns the case of a [Select] that a request of this kind arrives. It is stored in v, and the
// caller must answer it. A request that is refused is not chosen.
func (u Update[In, Out]) Into(v *Request[In, Out], opts ...UpdateOption[In]) Case {
	var r receiving[In]
	for _, opt := range opts {
		opt(&r)
	}
	c := Case{on: exec.SelectCase{Signal: u.name, Asks: true}, err: u.check()}
	if v == nil {
		c.err = store.Invalid("update "+u.name, "the variable for its request is nil")
		return c
	}
	c.take = func(codec exec.Codec, framed []byte) error {
		id, payload, err := exec.SplitAsk(framed)
		if err != nil {
			return err
		}
		got := Request[In, Out]{id: id, name: u.name}
		if err := decodeInto(codec, payload, &got.In, "the request of update %q", u.name); err != nil {
			return err
		}
		*v = got
		return nil
	}
	if r.check != nil {
		c.on.Check = func() error {
			err := r.check(v.In)
			if err == nil {
				return nil
			}
			*v = Request[In, Out]{}
			if coded := new(exec.Coded); errors.As(err, &coded) && coded.Code != "" {
				return err
			}
			return Coded(CodeRefused, err)
		}
	}
	return c
}

// check reports a name that is not valid.
func (u Update[In, Out]) check() error {
	if err := store.ValidateName("update name", u.name); err != nil {
		return err
	}
	if len(u.name) > exec.MaxAsk {
		return store.Invalid("update name", fmt.Sprintf("%q has %d bytes; at most %d are allowed", u.name, len(u.name), exec.MaxAsk))
	}
	return nil
}

// Target is the run that a request is sent to: a [Handle], or what [ToRun], [ToExternalID] and
// [Workflow.WithStart] return.
type Target interface {
	target() (target, error)
}

func (h Handle[Out]) target() (target, error) {
	if h.eng == nil {
		return target{}, errZeroHandle()
	}
	return target{eng: h.eng, to: store.NewSignal{Run: h.id}}, nil
}

type target struct {
	eng   *engine.Engine
	to    store.NewSignal
	start *starting // of the run, if none is active; nil: it must exist
}

func (t target) target() (target, error) { return t, nil }

// send sends a signal to the target.
func (t target) send(ctx context.Context, s store.NewSignal) (engine.Asked, error) {
	if t.start != nil {
		return t.start.send(ctx, t.eng, s)
	}
	return t.eng.Send(ctx, s)
}

// ToRun returns the run with an ID as a target of requests.
func ToRun(eng *engine.Engine, run store.ID) Target {
	return target{eng: eng, to: store.NewSignal{Run: run}}
}

// ToExternalID returns the run that holds an external id (see [engine.ExternalID]) as a target of
// requests. For a run that was started with a suffix, pass [SendSuffix] to the call.
func ToExternalID(eng *engine.Engine, externalID string) Target {
	return target{eng: eng, to: store.NewSignal{ExternalID: externalID}}
}

// AnswerError is the error of a request that the run has answered with a failure. [ErrorCode]
// returns the failure's code: that of the error that the run's code has returned, [CodeRefused] or
// [CodeDecode].
type AnswerError struct {
	Update  string
	Run     store.ID
	Failure *store.Failure
}

// Error returns a text with the update's name and the failure's message.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("update %q of run %s: %s", e.Update, e.Run, e.Failure.Message)
}

// Unwrap returns Failure.
func (e *AnswerError) Unwrap() error { return e.Failure }

// Asked is a request that was sent.
type Asked[In, Out any] struct {
	eng  *engine.Engine
	name string
	sent engine.Asked
}

// Asked returns a request that was sent before, perhaps by another process, from its run and ID.
func (u Update[In, Out]) Asked(eng *engine.Engine, run store.ID, id store.SignalID) Asked[In, Out] {
	return Asked[In, Out]{eng, u.name, engine.Asked{Run: run, Signal: id}}
}

// Ask sends a request to a run and waits for the answer.
//
// The caller waits by hints of the store, not by polling, for as long as its context lives. To be
// able to ask again after a crash, give the request a [SendKey]: a request of the same name and key is
// the same request. Its answer is the same, and the run does not see it twice.
//
// If the run answers with a failure, the error is an [*AnswerError]. If the run is final, it fails
// with store.ErrFinished; if the run ends before it answers, with an [*engine.UnansweredError], which
// matches engine.ErrUnanswered. It fails with store.ErrNotFound if there is no such run, with a
// [*DecodeError] if the answer does not fit Out, and with the errors of [engine.Engine.AwaitAnswer]. When
// it fails because its context is done, the request stays sent.
//
// In a step it fails with store.ErrInvalid. A step that waits keeps a worker's slot, and a request to
// its own run would wait for ever, because the run waits for the step. Send the request in the step,
// with [Update.Send] and the step's [IdempotencyKey] as its key, and read the answer with [Asked.Poll]
// in a step that is tried again until it is there.
func (u Update[In, Out]) Ask(ctx context.Context, to Target, in In, opts ...SendOption) (Out, error) {
	var none Out
	if err := u.outsideStep(ctx); err != nil {
		return none, err
	}
	asked, err := u.Send(ctx, to, in, opts...)
	if err != nil {
		return none, err
	}
	return asked.Wait(ctx)
}

func (u Update[In, Out]) outsideStep(ctx context.Context) error { return outsideStep(ctx, u.name) }

func outsideStep(ctx context.Context, update string) error {
	if info := exec.Info(ctx); info != nil {
		return store.Invalid("update "+update, fmt.Sprintf("step %s asks and waits for the answer, which would keep a slot and, if it asks its own run, wait for ever: "+
			"send the request with Send in the step, and read the answer with Poll in a step that is tried again", info.Key))
	}
	return nil
}

// Send sends a request to a run without waiting for the answer. A target that is part of a
// transaction (see [engine.Engine.InTx]) sends when the transaction commits. Errors are those of
// [Signal.Send].
func (u Update[In, Out]) Send(ctx context.Context, to Target, in In, opts ...SendOption) (Asked[In, Out], error) {
	if err := u.check(); err != nil {
		return Asked[In, Out]{}, err
	}
	t, err := to.target()
	if err != nil {
		return Asked[In, Out]{}, err
	}
	eng, signal := t.eng, t.to
	data, err := eng.Codec().Marshal(in)
	if err != nil {
		return Asked[In, Out]{}, fmt.Errorf("the request of update %q, a %T, cannot be encoded: %w", u.name, in, err)
	}
	signal.Name, signal.Payload = u.name, data
	for _, opt := range opts {
		opt(&signal)
	}
	sent, err := t.send(ctx, signal)
	if err != nil {
		return Asked[In, Out]{}, err
	}
	return Asked[In, Out]{eng, u.name, sent}, nil
}

// Run returns the ID of the run that has received the request.
func (a Asked[In, Out]) Run() store.ID { return a.sent.Run }

// ID returns the ID of the signal that carries the request.
func (a Asked[In, Out]) ID() store.SignalID { return a.sent.Signal }

// Wait waits for the answer, as [Update.Ask] does.
func (a Asked[In, Out]) Wait(ctx context.Context) (Out, error) {
	var none Out
	if a.eng == nil {
		return none, store.Invalid("asked", "it is the zero Asked, which was not sent")
	}
	if err := outsideStep(ctx, a.name); err != nil {
		return none, err
	}
	answer, err := a.eng.AwaitAnswer(ctx, a.sent)
	if err != nil {
		return none, err
	}
	return a.decode(answer)
}

// Poll returns the answer if there is one now; ok is false otherwise. Errors are those of
// [Update.Ask]. It works in steps too.
func (a Asked[In, Out]) Poll(ctx context.Context) (out Out, ok bool, err error) {
	if a.eng == nil {
		return out, false, store.Invalid("asked", "it is the zero Asked, which was not sent")
	}
	answer, ok, err := a.eng.Answer(ctx, a.sent)
	if err != nil || !ok {
		return out, false, err
	}
	out, err = a.decode(answer)
	return out, err == nil, err
}

func (a Asked[In, Out]) decode(answer engine.Answer) (out Out, err error) {
	if answer.Failure != nil {
		return out, &AnswerError{a.name, a.sent.Run, answer.Failure}
	}
	var got Out
	if err := decodeInto(a.eng.Codec(), answer.Output, &got, "the answer to update %q of run %s", a.name, a.sent.Run); err != nil {
		return out, err
	}
	return got, nil
}
