package backend

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Commit implements [store.Leases]. All commits of the call are one transaction, and each of
// them is whole by itself: everything that can fail in one comes before its first write (P3).
func (s *Store) Commit(ctx context.Context, p store.CommitParams) ([]store.CommitResult, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.CommitResult, error) {
		out := make([]store.CommitResult, len(p.Commits))
		seen := map[store.ID]bool{}
		for i := range p.Commits {
			c := &p.Commits[i]
			if seen[c.Lease.Run] {
				out[i].Err = store.Invalid("commit", fmt.Sprintf("run %s has another one in this call; send them one after the other", c.Lease.Run))
				continue
			}
			seen[c.Lease.Run] = true
			out[i] = t.commit(p.Namespace, c)
		}
		return out, nil
	})
}

func (t *tx) commit(namespace string, c *store.Commit) store.CommitResult {
	if err := c.Validate(t.limits); err != nil {
		return store.CommitResult{Err: err}
	}
	r := t.run(namespace, c.Lease.Run)
	repeated, err := r.Fence(c)
	if err == nil && !repeated {
		err = cmp.Or(t.checkSteps(r, c.Steps), t.checkSpawn(r, c.Spawn), r.CheckUses(c))
	}
	var streams streamPlan
	if err == nil && !repeated {
		streams, err = t.planCommitted(r, c)
	}
	switch {
	case err != nil:
		return store.CommitResult{Err: err}
	case repeated:
		res := r.Result()
		res.Repeated = true
		return res
	}
	t.ended = nil
	unseen := r.Begin(c)
	for i := range c.Steps {
		if st, write := r.Record(&c.Steps[i], t.step(r.ID, c.Steps[i].StepKey), t.now); write {
			t.putStep(r.ID, &st)
		}
	}
	for i := range c.State {
		t.setState(r, &c.State[i])
	}
	for _, id := range c.Consumed {
		t.consume(r.ID, id)
	}
	t.answer(r, c.Answers)
	t.writeStreams(r, streams)
	spawned := t.spawn(r, c.Spawn)
	if c.Transition == nil {
		t.save(r, true)
	} else {
		t.transition(r, c.Transition, unseen)
	}
	res := r.Result()
	res.Spawned, res.Ended = spawned, t.ended
	return res
}

// checkSteps refuses a new key at a position that another key has.
func (t *tx) checkSteps(r *storekit.Run, records []store.StepRecord) error {
	return storekit.CheckPositions(records,
		func(k store.StepKey) bool { return t.get(stepNameKey(r.ID, k)) != nil },
		func(position int64) bool { return t.get(stepKey(r.ID, position)) != nil })
}

func (t *tx) checkSpawn(r *storekit.Run, spawn []store.NewRun) error {
	for i := range spawn {
		if err := r.CheckSpawn(i, spawn[i].ID, t.anyRun(spawn[i].ID)); err != nil {
			return err
		}
	}
	return nil
}

// spawn makes the children that do not exist, and counts them in their groups (P9).
func (t *tx) spawn(parent *storekit.Run, spawn []store.NewRun) (made []store.RunCount) {
	groups := map[string]store.Group{}
	for i := range spawn {
		n := &spawn[i]
		if t.anyRun(n.ID) != nil {
			continue // it was counted then
		}
		t.insert(parent.Spawn(n, t.now))
		made = store.Tally(made, n.Queue, n.Workflow, store.Pending, 1)
		if n.Group == "" {
			continue
		}
		g, ok := groups[n.Group]
		if !ok {
			g = t.group(parent.ID, n.Group)
			g.Name = n.Group
		}
		storekit.CountSpawned(&g)
		groups[n.Group] = g
	}
	for name, g := range groups {
		t.putGroup(parent, name, &g)
	}
	return made
}

// transition ends the lease.
func (t *tx) transition(r *storekit.Run, tr *store.Transition, unseen bool) {
	effect := r.Transition(tr, unseen, t.groups(r.ID), t.now)
	t.save(r, true)
	switch {
	case effect.Final:
		t.putPayload(r.ID, output, r.Output)
		t.finished(r)
	case effect.ForgetSteps:
		t.forgetSteps(r.ID)
	case effect.Anew:
		t.putPayload(r.ID, input, r.Input)
		t.beginAnew(r)
	}
}

// beginAnew forgets what belongs to a run's generation before.
func (t *tx) beginAnew(r *storekit.Run) {
	t.forgetInner(r)
	for _, kind := range []byte{kindStep, kindStepKey, kindGroup} {
		t.deleteAll(keyOf(kind).ID(r.ID).All())
	}
	for _, id := range t.ids(keyOf(kindChild).ID(r.ID).All()) {
		c := t.anyRun(id)
		c.Detach()
		t.save(c, false)
	}
}

// finished follows the end of a run: its parent counts it, and children are canceled with
// it.
func (t *tx) finished(r *storekit.Run) {
	if parent := t.run(r.Namespace, r.Parent); parent != nil && r.Group != "" {
		if g := t.group(parent.ID, r.Group); g.Name != "" {
			storekit.CountEnded(&g, r.Status)
			t.write(groupKey(parent.ID, g.Name), &g)
			if parent.ChildEnded(t.groups(parent.ID), t.now) {
				t.save(parent, false)
			}
		}
	}
	t.closeChildren(r)
}

// closeChildren cancels the children that do not outlive their parent.
func (t *tx) closeChildren(r *storekit.Run) {
	for _, id := range t.ids(keyOf(kindCloses).ID(r.ID).All()) {
		t.cancel(t.anyRun(id), store.CanceledWithParent)
	}
}
