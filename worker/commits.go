package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/batch"
	"github.com/pawlhq/pawl/store"
)

// commitBatch limits how many concurrent commits share a write.
const commitBatch = 500

// newCommits makes the group in which concurrent commits share writes. A commit whose
// write fails is sent again until the store has answered it; a commit that was applied
// although its answer was lost is recognized by its Seq. A failed write is repeated with
// fewer commits, and a commit that fails alone does not stop others.
func (w *Worker) newCommits() *batch.Group[*store.Commit, store.CommitResult] {
	return batch.New(batch.Config[*store.Commit, store.CommitResult]{
		Items: commitBatch, Bytes: store.CallBytes, Size: func(c *store.Commit) int { return c.Size() },
		Call: w.commit, Failed: w.commitFailed, Stop: w.stop.Done(),
	})
}

// Commit implements [exec.Host]: concurrent commits share a write.
func (h host) Commit(c *store.Commit) store.CommitResult {
	defer h.w.lost.end(h.w.lost.begin(c.Lease))
	size := c.Size()
	h.w.memory.takeCommit(size)
	defer h.w.memory.giveCommit(size)
	next := h.w.passOn(c)
	res, _, err := h.w.commits.Do(h.w.stop, c)
	if err != nil {
		res.Err = err
	}
	next.take(res.Next)
	if res.Err == nil {
		h.w.suspects.applied(c)
	}
	return res
}

// commit sends one write of commits.
func (w *Worker) commit(commits []*store.Commit) ([]store.CommitResult, error) {
	newest, old := superseded(commits)
	ctx, cancel := context.WithTimeout(w.stop, w.callTimeout())
	defer cancel()
	began := time.Now()
	results, err := w.store.Commit(ctx, store.CommitParams{Namespace: w.namespace, Commits: newest})
	w.tel.Committed(results, len(newest), time.Since(began), err)
	if err != nil {
		if ctx.Err() != nil && w.stop.Err() == nil && !store.Retryable(err) {
			err = fmt.Errorf("no answer within %v: %w: %w", w.callTimeout(), store.ErrOutcomeUnknown, err)
		}
		if w.stop.Err() == nil && len(commits) > 1 {
			w.log.Error("failed to write commits; retrying", "commits", len(commits), "bytes", sizeOf(commits), "error", err)
		}
		return nil, err
	}
	for _, i := range old {
		results = slices.Insert(results, i, store.CommitResult{Err: store.ErrLeaseLost})
	}
	return results, nil
}

func sizeOf(commits []*store.Commit) (bytes int) {
	for i := range commits {
		bytes += commits[i].Size()
	}
	return bytes
}

// commitFailed decides what to do with a commit whose write failed. If there are several
// commits, any of them may be the cause.
func (w *Worker) commitFailed(c *store.Commit, _ store.CommitResult, f batch.Failure) (res store.CommitResult, done bool) {
	if store.Retryable(f.Err) && !f.Apart {
		w.callFailed()
	}
	switch {
	case w.stop.Err() != nil:
		return store.CommitResult{Err: f.Err}, true
	case !f.Alone:
		return res, false
	case !store.Retryable(f.Err) || errors.Is(f.Err, store.ErrTooLarge):
		w.log.Error("the store refused a commit", "run", c.Lease.Run.String(), "bytes", c.Size(), "error", f.Err)
		return store.CommitResult{Err: f.Err}, true
	}
	w.log.Error("failed to write a commit; retrying", "run", c.Lease.Run.String(), "bytes", c.Size(), "in", f.Next, "error", f.Err)
	return res, false
}

// superseded returns the commits without those of old leases, if a run has come back to this
// worker and both its leases commit at the same time; old are their indexes. An identical
// lease has two commits only if the database has lost the first claim.
func superseded(commits []*store.Commit) (newest []store.Commit, old []int) {
	newest = make([]store.Commit, 0, len(commits))
	best := make(map[store.ID]int, len(commits))
	for i, c := range commits {
		if j, twice := best[c.Lease.Run]; !twice || c.Lease.Epoch > commits[j].Lease.Epoch {
			best[c.Lease.Run] = i
		}
	}
	for i, c := range commits {
		if len(best) == len(commits) || best[c.Lease.Run] == i {
			newest = append(newest, *c)
		} else {
			old = append(old, i)
		}
	}
	return newest, old
}
