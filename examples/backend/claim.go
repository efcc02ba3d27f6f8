package backend

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Claim implements [store.Leases].
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) (store.Claimed, error) {
		most := cmp.Or(p.MaxBytes, store.DefaultClaimBytes)
		c := &claim{
			tx: t, p: &p, rules: storekit.NewClaim(&p), taken: map[store.ID]bool{}, out: store.Claimed{Now: t.now},
			stepBytes: storekit.UpTo(most), signalBytes: storekit.UpTo(most), stateBytes: storekit.UpTo(most),
		}
		c.openLines()
		if p.Again {
			c.again()
		} else if t.limited(p.Namespace) {
			c.takeUnderLimits()
		} else {
			c.take()
		}
		c.rest()
		return c.out, nil
	})
}

// claim is a claim under way.
type claim struct {
	*tx
	p     *store.ClaimParams
	rules *storekit.Claim
	lines []waitingLine
	taken map[store.ID]bool
	out   store.Claimed

	stepBytes, signalBytes, stateBytes *storekit.Bound
}

// waitingLine is the runs of one lane and one priority, by their times. The index of claims has
// them one behind the other, and what follows the lane in its keys is the order of P7.
type waitingLine struct {
	lane   storekit.Lane
	prefix key
	skip   int // the bytes of the lane
}

// openLines finds the lines of the claim's lanes that are not paused.
func (c *claim) openLines() {
	lanes := storekit.Lanes(c.p)
	if len(lanes) > 0 {
		asked, err := storekit.WorkerAsked(c, c.p.Namespace, c.p.Worker)
		check(err)
		c.out.Asked = asked
	}
	for _, lane := range lanes {
		if c.paused(c.p.Namespace, lane) {
			continue
		}
		k := laneKey(c.p.Namespace, lane)
		for _, prefix := range c.priorities(k) {
			c.lines = append(c.lines, waitingLine{lane, prefix, len(k)})
		}
	}
}

// priorities returns the beginnings of a lane's keys, the highest priority first: one look into
// the index for each priority in use.
func (t *tx) priorities(lane key) (prefixes []key) {
	s := lane.All()
	for {
		first, found := t.first(s)
		if !found {
			return prefixes
		}
		prefix := first[:len(lane)+1]
		prefixes = append(prefixes, slices.Clone(prefix))
		s.From = prefix.End()
	}
}

// due is the span of a line's runs that may be claimed.
func (t *tx) due(prefix key) span { return between(prefix, prefix.Time(t.now.Add(time.Microsecond))) }

// take leases the due runs that the claim takes, in the order of P7.
func (c *claim) take() {
	var runs []*storekit.Run
	for i, r := range c.plain(c.rules.Wants) {
		if row := c.row(r, input, meta); c.rules.Take(c.lines[i].lane, storekit.ClaimSize(&row)) {
			runs = append(runs, r)
		}
	}
	for _, r := range runs {
		r.Lease(c.p.Worker, c.p.Build, c.p.LeaseFor, c.p.ClaimID, c.now)
		c.save(r, true)
		c.add(r)
	}
}

// plain yields the due runs that limits do not concern, in the order of P7, with their lines.
func (c *claim) plain(wants func(storekit.Lane) bool) iter.Seq2[int, *storekit.Run] {
	due := make([]storekit.Line, len(c.lines))
	for i, l := range c.lines {
		due[i] = storekit.Line{Span: c.due(l.prefix), Skip: l.skip}
	}
	return func(yield func(int, *storekit.Run) bool) {
		wanted := func(i int) bool { return wants(c.lines[i].lane) }
		for i, k := range c.merge(due, false, wanted) {
			if !yield(i, c.run(c.p.Namespace, storekit.LastID(k))) {
				return
			}
		}
	}
}

// again finds the runs that the claim has taken before.
func (c *claim) again() {
	var runs []*storekit.Run
	for _, id := range c.ids(heldKey(c.p.Namespace, c.p.Worker).All()) {
		if r := c.run(c.p.Namespace, id); r.TookIn(c.p.ClaimID, c.p.Worker, c.now) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, storekit.CompareClaims)
	for _, r := range runs {
		lane := r.LaneOf()
		if !c.paused(c.p.Namespace, lane) && c.rules.Take(lane, 0) {
			c.add(r)
		}
	}
}

// add adds a leased run to the answer, with what its replay needs.
func (c *claim) add(r *storekit.Run) {
	c.taken[r.ID] = true
	run := store.ClaimedRun{Run: c.row(r, input, meta), Lease: r.LeaseOf(), Recovered: r.Crashes > 0}
	if c.p.Bare {
		storekit.Omit(&run.Run)
		run.MoreSteps = c.hasSteps(r.ID)
		run.Inbox = store.Inbox{Status: r.Status, Events: r.Events, MoreSignals: true, MoreState: true, MoreGroups: true}
	} else {
		run.Steps, run.MoreSteps = storekit.Collect(c.steps(r.ID, 0), store.MaxPage, c.stepBytes, storekit.StepSize)
		run.Inbox = c.inbox(r, &store.InboxParams{}, c.signalBytes, c.stateBytes)
	}
	c.out.Runs = append(c.out.Runs, run)
}

// rest tells of what was not taken: the first run of each line.
func (c *claim) rest() {
	for _, l := range c.lines {
		for p := range c.scan(l.prefix.All(), false) {
			if c.taken[storekit.LastID(p.Key)] {
				continue
			}
			at := storekit.KeyTime(string(p.Key[len(l.prefix):][:8]))
			c.out.NextDue = storekit.Earliest(c.out.NextDue, at)
			if c.p.Wanted() > 0 && !at.After(c.now) {
				c.out.Waiting = store.Waits(c.out.Waiting, l.lane.Queue, l.lane.Workflow, at)
			}
			break
		}
	}
	for _, lane := range storekit.Lanes(c.p) {
		if !c.paused(c.p.Namespace, lane) {
			c.restUnderLimits(lane)
		}
	}
}

// Extend implements [store.Leases].
func (s *Store) Extend(ctx context.Context, p store.ExtendParams) ([]store.LeaseState, error) {
	return update(ctx, s, p.Validate(), p.Now, func(t *tx) ([]store.LeaseState, error) {
		check(storekit.WorkerSeen(t, p.Namespace, p.Worker, t.now))
		out := make([]store.LeaseState, len(p.Leases))
		for i, l := range p.Leases {
			out[i].Lost = true
			if l.Worker != p.Worker {
				continue
			}
			r := t.run(p.Namespace, l.Run)
			if out[i] = r.Extend(l, p.LeaseFor, t.now); !out[i].Lost {
				t.save(r, true)
			}
		}
		return out, nil
	})
}

// Ahead implements [store.Ranker].
func (s *Store) Ahead(ctx context.Context, p store.AheadParams) (int, error) {
	return view(ctx, s, p.Validate(), p.Now, func(t *tx) (n int, err error) {
		r := t.run(p.Namespace, p.Run)
		switch {
		case r == nil:
			return 0, storekit.NotFound(p.Run)
		case !r.Due(t.now):
			return 0, nil
		}
		lanes := []storekit.Lane{{Queue: r.Queue, Workflow: r.Workflow}}
		if own := r.LaneOf(); own != lanes[0] {
			lanes = append(lanes, own)
		}
		for _, lane := range lanes {
			for _, kind := range []byte{kindDue, kindWaits} {
				lane := laneKind(kind, p.Namespace, lane)
				own := lane.Priority(r.Priority).Time(r.VisibleAt).ID(r.ID)
				for _, prefix := range t.priorities(lane) {
					before := t.due(prefix)
					if bytes.Compare(own, before.To) < 0 {
						before.To = own
					}
					for range t.scan(before, false) {
						if n++; n > store.MaxAhead {
							return n, nil
						}
					}
				}
			}
		}
		return n, nil
	})
}
