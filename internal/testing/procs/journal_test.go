package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawlhq/pawl/internal/exec"
	"github.com/pawlhq/pawl/store"
)

// An entry is one line of a journal: something that a process did, written before it could have any
// consequence. Times are microseconds since 1970 by the wall clock of the machine on which all
// processes run.
type entry struct {
	Op    string   `json:"op"` // effect, claim, extend, commit; release: a commit that gives the run back, before it is sent; unknown: a commit whose answer was lost; asked: what came of one in a transaction; blind: a claim or create
	PID   int      `json:"pid"`
	Run   store.ID `json:"run"`
	Epoch int64    `json:"epoch"`
	From  int64    `json:"from"`         // when it began
	To    int64    `json:"to,omitempty"` // when the store had answered

	// For an effect, which is a line that a step writes as its work:
	Branch  string `json:"branch,omitempty"`
	Step    string `json:"step,omitempty"`
	Try     int    `json:"try,omitempty"` // the run's attempt
	Attempt int    `json:"attempt,omitempty"`
	Key     string `json:"key,omitempty"` // the idempotency key

	Recovered bool  `json:"recovered,omitempty"` // claim: the lease before ran out, or gave the run back as a suspect
	Lease     int64 `json:"lease,omitempty"`     // claim, extend: for how long, in microseconds
	Seq       int64 `json:"seq,omitempty"`       // commit
	Tx        bool  `json:"tx,omitempty"`        // unknown: of a step in a transaction
	Repeated  bool  `json:"repeated,omitempty"`  // commit: had been applied before
	Final     bool  `json:"final,omitempty"`     // commit: the run is final
}

func (e *entry) stepKey() store.StepKey {
	return store.StepKey{Branch: e.Branch, Name: e.Step, Occurrence: 1}
}

// journal is the file to which a process appends what it does. Each line is one write, so that kill
// -9 leaves whole lines.
type journal struct{ file *os.File }

func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.journal", os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{f}, err
}

func (j *journal) write(entries ...entry) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range entries {
		entries[i].PID = os.Getpid()
		if err := enc.Encode(&entries[i]); err != nil {
			return err
		}
	}
	_, err := j.file.Write(b.Bytes())
	return err
}

// effect is the side effect of a step.
func (j *journal) effect(ctx context.Context) error {
	info := exec.Info(ctx)
	return j.write(entry{
		Op: "effect", From: time.Now().UnixMicro(), Run: info.Inv.Run().ID, Epoch: info.Inv.Lease().Epoch,
		Branch: info.Key.Branch, Step: info.Key.Name, Try: info.Inv.Run().Attempt, Attempt: info.Attempt, Key: info.IdempotencyKey(),
	})
}

// readJournals reads what all processes have written.
func readJournals(dir string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(data) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // nobody has acted on an incomplete line
			}
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// tap is a store that journals every lease that is granted and every commit that is applied, before
// the worker learns of it. It changes nothing.
type tap struct {
	store.Store
	journal *journal
}

// tapped wraps a store that gives hints and has transactions, as the wrapper does.
func tapped(st store.Store, j *journal) store.Store {
	t := &tap{st, j}
	return struct {
		*tap
		store.Hinter
		store.Transactor
	}{t, st.(store.Hinter), &tapTx{st.(store.Transactor), t}}
}

// tapTx journals what is committed in the transactions of steps, but not in the program's own
// transactions.
type tapTx struct {
	store.Transactor
	tap *tap
}

func (t *tapTx) Begin(ctx context.Context, target any) (store.Transaction, error) {
	tx, err := t.Transactor.Begin(ctx, target)
	if err != nil {
		return nil, err
	}
	return &tappedTx{tx, t.tap}, nil
}

type tappedTx struct {
	store.Transaction
	tap *tap
}

func (t *tappedTx) Commit(ctx context.Context, namespace string, c store.Commit) (store.CommitResult, error) {
	from := time.Now()
	res, err := t.Transaction.Commit(ctx, namespace, c)
	e := entry{Op: "commit", Run: c.Lease.Run, Epoch: c.Lease.Epoch, Seq: c.Seq, Repeated: res.Repeated, From: from.UnixMicro(), To: time.Now().UnixMicro()}
	switch {
	case errors.Is(err, store.ErrOutcomeUnknown):
		e.Op, e.Tx = "unknown", true
		return res, t.tap.unknown(err, e)
	case err != nil || res.Err != nil:
		return res, err
	}
	return res, t.tap.done(nil, []entry{e})
}

// Recorded journals that the outcome was learned.
func (t *tapTx) Recorded(ctx context.Context, namespace string, lease store.Lease, seq int64) (bool, error) {
	now := time.Now().UnixMicro()
	recorded, err := t.Transactor.Recorded(ctx, namespace, lease, seq)
	if err != nil {
		return recorded, err
	}
	step := "not recorded"
	if recorded {
		step = "recorded"
	}
	return recorded, t.tap.done(nil, []entry{{Op: "asked", Step: step, Run: lease.Run, Epoch: lease.Epoch, Seq: seq, From: now, To: time.Now().UnixMicro()}})
}

// Create journals the leases of eager starts.
func (t *tap) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	from := time.Now()
	results, err := t.Store.Create(ctx, p)
	to := time.Now()
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return results, t.unknown(err, entry{Op: "blind", Step: "create"})
	}
	var list []entry
	for i, r := range results {
		if r.Lease.Epoch > 0 {
			list = append(list, entry{Op: "claim", Run: r.ID, Epoch: r.Lease.Epoch, From: from.UnixMicro(), To: to.UnixMicro(), Lease: p.Runs[i].LeaseFor.Microseconds()})
		}
	}
	return results, t.done(err, list)
}

func (t *tap) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	from := time.Now()
	claimed, err := t.Store.Claim(ctx, p)
	to := time.Now()
	if errors.Is(err, store.ErrOutcomeUnknown) {
		return claimed, t.unknown(err, entry{Op: "blind", Step: "claim"})
	}
	var list []entry
	for _, r := range claimed.Runs {
		list = append(list, entry{Op: "claim", Run: r.Run.ID, Epoch: r.Lease.Epoch, Recovered: r.Recovered, From: from.UnixMicro(), To: to.UnixMicro(), Lease: p.LeaseFor.Microseconds()})
	}
	return claimed, t.done(err, list)
}

func (t *tap) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	from := time.Now()
	states, err := t.Store.Extend(ctx, p)
	to := time.Now()
	var list []entry
	for i, s := range states {
		if !s.Lost {
			list = append(list, entry{Op: "extend", Run: p.Leases[i].Run, Epoch: p.Leases[i].Epoch, From: from.UnixMicro(), To: to.UnixMicro(), Lease: p.LeaseFor.Microseconds()})
		}
	}
	return states, t.done(err, list)
}

func (t *tap) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	from := time.Now()
	if err := t.done(nil, releases(p.Commits, from)); err != nil {
		return nil, err
	}
	results, err := t.Store.Commit(ctx, p)
	to := time.Now()
	var list []entry
	if errors.Is(err, store.ErrOutcomeUnknown) {
		for i := range p.Commits {
			c := &p.Commits[i]
			list = append(list, entry{Op: "unknown", Run: c.Lease.Run, Epoch: c.Lease.Epoch, Seq: c.Seq, From: from.UnixMicro(), To: to.UnixMicro()})
		}
		return results, t.unknown(err, list...)
	}
	for i, r := range results {
		if r.Err == nil {
			c := &p.Commits[i]
			list = append(list, entry{Op: "commit", Run: c.Lease.Run, Epoch: c.Lease.Epoch, Seq: c.Seq, Repeated: r.Repeated, Final: r.Status.Final(), From: from.UnixMicro(), To: to.UnixMicro()})
		}
	}
	return results, t.done(err, list)
}

// releases returns the entries of commits that are to give a run back. They are written before the
// commits are sent, so that they exist even if the process is killed before it gets the answer.
func releases(commits []store.Commit, at time.Time) (list []entry) {
	for i := range commits {
		if c := &commits[i]; c.Transition != nil && c.Transition.Kind == store.Release {
			list = append(list, entry{Op: "release", Run: c.Lease.Run, Epoch: c.Lease.Epoch, Seq: c.Seq, From: at.UnixMicro()})
		}
	}
	return list
}

// unknown journals that an answer was lost.
func (t *tap) unknown(err error, list ...entry) error { return errors.Join(err, t.done(nil, list)) }

func (t *tap) done(err error, list []entry) error {
	if err != nil || len(list) == 0 {
		return err
	}
	if err := t.journal.write(list...); err != nil {
		panic(err) // a journal with gaps proves nothing
	}
	return nil
}
