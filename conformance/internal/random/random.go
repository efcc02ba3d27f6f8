// Package random is the random tier of the conformance suite: sequences of operations on a
// backend and on the model, in lockstep.
package random

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/conformance/internal/harness"
	"github.com/pawlhq/pawl/conformance/internal/kit"
	"github.com/pawlhq/pawl/conformance/internal/model"
	"github.com/pawlhq/pawl/conformance/internal/ops"
	"github.com/pawlhq/pawl/conformance/internal/report"
	"github.com/pawlhq/pawl/store"
)

// Run is conformance.RunRandom. It runs three rounds of rapid's usual 100 sequences; while a branch
// of randomBranches has not been reached, further rounds follow, up to maxRounds.
func Run(t *testing.T, h harness.Harness) {
	shrinkLess()
	if !report.Wholly(t) {
		return
	}
	tier := harness.WholeTier(t, "random", &h)
	r := &random{ctx: t.Context(), reached: map[string]int{}}
	if h.Progress {
		r.unwritten = harness.UnwrittenVerbs(t.Context(), h.New(t))
	}
	if len(r.unwritten) > 0 {
		tier.Wait("random", r.unwritten)
	}
	for i := 0; i < randomRounds() || i < mostRounds() && len(r.missed()) > 0 && len(r.unwritten) == 0; i++ {
		if !t.Run(fmt.Sprintf("round-%d", i+1), func(t *testing.T) { r.round(t, h) }) {
			return
		}
	}
	if r.sequences == 0 {
		return // -run has left out the rounds
	}
	t.Logf("branches reached in %d sequences, %d operations:\n%s", r.sequences, r.operations, r.table())
	if missed := r.missed(); len(missed) > 0 && len(r.unwritten) == 0 {
		t.Errorf("branches that no sequence reached, so that nothing is said about them: %s", strings.Join(missed, ", "))
	}
}

// mostRounds bounds them. With -short rapid draws a fifth of the sequences in each.
func mostRounds() int {
	if testing.Short() {
		return 10 * maxRounds
	}
	return maxRounds
}

func randomRounds() int {
	if kit.Race || testing.Short() {
		return 1
	}
	return 3
}

// shrinkLess bounds the time that rapid shrinks a sequence: reduce does that better.
var shrinkLess = sync.OnceFunc(func() {
	if f := flag.Lookup("rapid.shrinktime"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("3s")
	}
})

// random is the state that the sequences of one backend share.
type random struct {
	ctx        context.Context
	handles    [2]store.Store
	limits     store.Limits
	number     int // of the last sequence
	sequences  int // drawn
	operations int
	reached    map[string]int
	unwritten  []string  // verbs of a backend that is being written, which the model lacks then, too
	failing    *sequence // the last that told the two apart
}

// round checks sequences on a store of their own, so that the store stays small.
func (r *random) round(t *testing.T, h harness.Harness) {
	s := h.New(t)
	r.handles, r.limits = [2]store.Store{s, s}, s.Limits()
	if h.Reopen != nil {
		r.handles[1] = h.Reopen(t, s)
	}
	r.failing = nil
	defer func() { // rapid ends the test when it fails
		if r.failing != nil {
			q := r.failing.reduce()
			t.Logf("the sequence, reduced further:%#v\n%s", q, q.difference)
		}
	}()
	rapid.Check(t, r.check)
}

// check is the property: no sequence of operations distinguishes the backend from the model.
func (r *random) check(rt *rapid.T) {
	q := r.drawn().Draw(rt, "sequence")
	if q.difference != "" {
		r.failing = q
		rt.Fatalf("%s", q.difference)
	}
}

// drawn draws a sequence and runs it inside one generator, so that rapid prints it as one value.
func (r *random) drawn() *rapid.Generator[*sequence] {
	return rapid.Custom(func(rt *rapid.T) *sequence {
		q := r.newSequence(rt)
		rt.Repeat(map[string]func(*rapid.T){"operations": q.step})
		q.rt = nil
		q.end()
		return q
	})
}

// table lists the branches with how often each was reached.
func (r *random) table() string {
	var b strings.Builder
	for _, name := range r.branches() {
		fmt.Fprintf(&b, "%8d  %s\n", r.reached[name], name)
	}
	return b.String()
}

// branches lists those that the backend can reach.
func (r *random) branches() []string {
	list := slices.Clone(randomBranches)
	if s := r.handles[0]; s != nil && store.Able(s, store.Streams) {
		list = append(list, streamBranches...)
	}
	if s := r.handles[0]; s != nil && store.Able(s, store.Trees) {
		list = append(list, treeBranches...)
	}
	if s := r.handles[0]; s != nil && store.Able(s, store.Outbox) {
		list = append(list, outboxBranches...)
	}
	return list
}

func (r *random) missed() []string {
	var out []string
	for _, name := range r.branches() {
		if r.reached[name] == 0 {
			out = append(out, name)
		}
	}
	return out
}

const (
	maxRounds     = 12
	randomIDs     = 48 // runs that a sequence has names for
	randomSignals = 12
)

// sequence is one sequence while it runs. It learns from the model, in order to choose operations
// that reach rare branches. The backend may have been used before: each sequence has namespaces and
// IDs of its own.
type sequence struct {
	*random
	rt    *rapid.T
	model *model.Store
	names *ops.Names

	number   int
	now      time.Time
	ids      []store.ID
	used     map[store.ID]bool
	position int64 // of the last step, over all runs
	sigs     []store.SignalID
	held     []*ops.Holding
	commits  []sent               // applied ones, to be repeated
	appended []store.AppendParams // applied ones, to be repeated
	signals  []signaled
	signaled []store.NewRun // starts that have created runs with signals
	before   map[store.ID]store.Run
	ops      []drawn
	applied  map[store.Lease]int64 // Seq of the last commit applied under each lease
	lines    []string              // of the operations, printed

	difference string
	kind       string // of the difference: the verb, and the errors on either side
}

type sent struct {
	ns     string
	commit store.Commit
}

type signaled struct {
	ns     string
	signal store.NewSignal
}

func (r *random) newSequence(rt *rapid.T) *sequence {
	r.number++
	if rt != nil {
		r.sequences++
	}
	q := &sequence{
		random: r, rt: rt, model: model.New(model.Options{PayloadLimit: r.limits.Payload}), number: r.number, now: kit.Began,
		used: map[store.ID]bool{}, before: map[store.ID]store.Run{}, applied: map[store.Lease]int64{},
		names: &ops.Names{IDs: map[store.ID]string{}, Texts: map[string]string{}},
	}
	for i := range randomIDs {
		id := q.id(0, i)
		q.ids = append(q.ids, id)
		q.names.IDs[id] = fmt.Sprintf("r%d", i+1)
	}
	for i := range randomSignals {
		id := q.id(1, i)
		q.sigs = append(q.sigs, id)
		q.names.IDs[id] = fmt.Sprintf("m%d", i+1)
	}
	for _, ns := range randomNamespaces {
		q.names.Texts[q.ns(ns)] = ns
	}
	return q
}

// id makes the sequence's ID of a number. IDs have the same order in every sequence, and the last
// digits of their texts distinguish them.
func (q *sequence) id(kind byte, i int) store.ID {
	var id store.ID
	binary.BigEndian.PutUint64(id[:], uint64(q.number))
	id[8], id[15] = kind, byte(i+1)
	return id
}

func (q *sequence) ns(name string) string { return fmt.Sprintf("random-%d/%s", q.number, name) }

// GoString returns the sequence as rapid prints it.
func (q *sequence) GoString() string { return "\n" + strings.Join(q.lines, "\n") }

// step performs one or two operations.
func (q *sequence) step(rt *rapid.T) {
	q.rt = rt
	for range 1 + min(1, q.pick(8)) {
		if q.difference != "" {
			return
		}
		q.move()
		clear(q.used)
		operations[q.pick(len(operations))](q)
	}
}

// move may let time pass.
func (q *sequence) move() {
	moves := []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, time.Microsecond, time.Second, time.Second, 10 * time.Second, time.Minute, time.Hour, 700 * time.Nanosecond}
	i := q.pick(len(moves) + 4)
	if i < len(moves) {
		q.now = q.now.Add(moves[i])
		return
	}
	// To the moment at which the next run is due, or just before it.
	var due time.Time
	for _, id := range q.ids {
		if at := q.before[id].VisibleAt; at.After(q.now) && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	if due.IsZero() {
		return
	}
	if i == len(moves) && due.Add(-time.Microsecond).After(q.now) {
		due = due.Add(-time.Microsecond)
	}
	q.now = due
}

// drawn is an operation of a sequence.
type drawn struct {
	ops.Operation
	leases map[store.Lease]standing // that params name; see reducer
	handle int
}

// do sends one operation to the backend and to the model and compares the answers. The sequence
// continues with the model's answer.
func do[P, R any](q *sequence, verb string, p P, call func(store.Store, context.Context, P) (R, error)) (R, error) {
	op := drawn{Operation: ops.Invoke(verb, p, call)}
	if q.rt != nil {
		q.operations++
		if q.chance(30) {
			op.handle = 1
		}
		op.leases = q.standings(p)
		q.ops = append(q.ops, op)
	}
	res, err := q.execute(op, q.rt != nil)
	return res.(R), err
}

// execute runs an operation on both and reports the first difference. Operations of the final dump
// are printed only if their answers differ.
func (q *sequence) execute(op drawn, print bool) (any, error) {
	var model store.Store = q.model
	if len(q.unwritten) > 0 {
		model = harness.NewVerbProbe(model, &harness.Met{}, q.unwritten...)
	}
	want, wantErr := op.Call(q.ctx, model, op.Params)
	q.count(op.Params, want)
	got, gotErr := kit.Patient(q.ctx, func() (any, error) {
		own := rebase(op.Params, q, q) // a backend that writes to its params has no hold on what is recorded
		return op.Call(q.ctx, q.handles[op.handle], own)
	})
	saw, expected := q.names.Outcome(got, gotErr), q.names.Outcome(want, wantErr)
	if saw == expected && !print {
		return want, wantErr
	}
	line := fmt.Sprintf("%3d. %s%s", len(q.lines)+1, op.Verb, q.names.Write(op.Params))
	q.lines = append(q.lines, line+" = "+expected)
	if saw == expected || q.difference != "" {
		return want, wantErr
	}
	q.kind = fmt.Sprint(op.Verb, errorsIn.FindAllString(saw, -1), errorsIn.FindAllString(expected, -1))
	q.difference = fmt.Sprintf("operation %d tells the backend from the model\n  operation: %s\n  backend:   %s\n  model:     %s\n%s",
		len(q.lines), strings.TrimSpace(line), saw, expected, differ(saw, expected))
	if gotErr == nil && wantErr == nil {
		for _, line := range kit.Differences(got, want) {
			q.difference += "  " + line + "\n"
		}
	}
	if gotErr != nil {
		q.difference += fmt.Sprintf("  the backend's error: %v\n", gotErr)
	}
	if wantErr != nil {
		q.difference += fmt.Sprintf("  the model's error: %v\n", wantErr)
	}
	if op.handle == 1 {
		q.difference += "  the operation went to the second handle\n"
	}
	return want, wantErr
}

var errorsIn = regexp.MustCompile(`error\([a-z ]*\)`)

// differ shows where two texts begin to differ.
func differ(saw, expected string) string {
	i := 0
	for i < len(saw) && i < len(expected) && saw[i] == expected[i] {
		i++
	}
	clip := func(s string) string { return s[max(0, min(i-40, len(s))):min(len(s), i+60)] }
	return fmt.Sprintf("  they part at: ...%s...\n      and at: ...%s...\n", clip(saw), clip(expected))
}

// look reads all runs of the model before an operation, so that learn can find out what the
// operation did.
func (q *sequence) look() map[store.ID]store.Run {
	runs := map[store.ID]store.Run{}
	for _, ns := range randomNamespaces {
		found, err := q.model.Get(q.ctx, store.GetParams{Namespace: q.ns(ns), IDs: q.ids})
		if err != nil {
			panic(err) // the model's params are right
		}
		for _, r := range found {
			runs[r.ID] = r
		}
	}
	return runs
}

// learn compares the model's runs with those before the operation, and counts
// the branches that it took.
func (q *sequence) learn(verb string) {
	after := q.look()
	canceled := 0
	for _, id := range q.ids {
		was, had := q.before[id]
		is, has := after[id]
		if !had || !has {
			continue
		}
		asleep := was.Status == store.Sleeping && is.Status == store.Sleeping
		switch {
		case is.Status == store.Canceled && was.Status != store.Canceled && verb != "Commit":
			canceled++
		case is.Status == store.Canceled && was.Status != store.Canceled && was.Worker == "":
			q.hit("children follow a final parent")
		case was.Status == store.Running && is.Status == store.Paused:
			q.hit("pausing run pauses at its transition")
		}
		if was.Status == store.Canceling && is.Status.Final() && is.Status != store.Canceled {
			q.hit("completion wins over cancel")
		}
		woken := is.VisibleAt.Equal(q.now.Truncate(time.Microsecond)) && !is.VisibleAt.Equal(was.VisibleAt)
		switch {
		case asleep && woken && verb == "Signal":
			q.hit("signal wakes sleeper")
		case asleep && woken && verb == "SetState":
			q.hit("state wakes sleeper")
		case asleep && woken:
			q.hit("child's end wakes parent")
		case was.Status == store.Paused && is.Status == store.Paused && woken:
			q.hit("event for a paused sleeper")
		}
		if is.Crashes >= 2 && is.Crashes > was.Crashes {
			q.hit("second crash in a row")
		}
		if was.Group != "" && is.Group == "" {
			q.hit("child leaves its group")
		}
	}
	if canceled > 1 && verb == "Cancel" {
		q.hit("cancel of a tree")
	}
	q.before = after
}

func (q *sequence) hit(branch string) {
	if !slices.Contains(slices.Concat(randomBranches, streamBranches, treeBranches, outboxBranches), branch) {
		panic("random: no such branch: " + branch)
	}
	q.reached[branch]++
}

var anyNumber = rapid.Uint64()

// pick draws a number from 0 to n-1, nearly evenly, and shrinks to 0. (rapid would draw from a
// range with a strong bias to its ends.)
func (q *sequence) pick(n int) int { return int(anyNumber.Draw(q.rt, "") % uint64(n)) }

// chance returns true in about that many of a hundred cases.
func (q *sequence) chance(percent int) bool { return q.pick(100) >= 100-percent }

func of[T any](q *sequence, list ...T) T { return list[q.pick(len(list))] }

// is reports whether an error is of a class.
func is(err, class error) bool { return errors.Is(err, class) }
