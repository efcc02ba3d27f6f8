package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
)

// paceWindow is how far back the ends of runs count for the present pace of a limit's key.
const paceWindow = 10 * time.Minute

// queueText says how many of the runs that wait for a limit and key go before this one, and when its turn
// comes at the present pace: at that of the ends of runs that were under the limit and key. It reads a
// bounded number of runs, and says nothing that these do not show.
func (f *facts) queueText(u store.LimitUse, waiting int64) string {
	var text string
	ahead, all := 0, true
	if waiting > 1 {
		if ahead, all = f.aheadUnder(u); ahead == 0 && all {
			text = ", none of them ahead of it"
		} else if !all {
			text = fmt.Sprintf(", at least %d of them ahead of it", ahead)
		} else {
			text = fmt.Sprintf(", %d of them ahead of it", ahead)
		}
	}
	if f.err != nil || !all {
		return text
	}
	if every := f.pace(u); every > 0 {
		text += fmt.Sprintf("; at the present pace it goes in about %v", rounded(time.Duration(ahead+1)*every))
	}
	return text
}

// rounded leaves out digits that an estimate does not have.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Minute:
		return d.Round(10 * time.Second)
	case d >= 10*time.Second:
		return d.Round(time.Second)
	}
	return max(d.Round(100*time.Millisecond), 100*time.Millisecond)
}

// aheadUnder counts the waiting runs of a limit and key that a claim takes before this one (P7). all
// says that there are no others.
func (f *facts) aheadUnder(u store.LimitUse) (ahead int, all bool) {
	page, ok := f.list(store.ListParams{OldestFirst: true, Filter: store.RunFilter{Statuses: []store.Status{store.Pending, store.Sleeping}}})
	if !ok {
		return 0, false
	}
	r := f.run
	for i := range page.Runs {
		o := &page.Runs[i]
		if o.ID == r.ID || o.Worker != "" || o.VisibleAt.IsZero() || o.VisibleAt.After(f.now) || !holds(o.Under, u) && !holds(o.StepUnder, u) {
			continue
		}
		if cmp.Or(cmp.Compare(r.Priority, o.Priority), o.VisibleAt.Compare(r.VisibleAt), bytes.Compare(o.ID[:], r.ID[:])) < 0 {
			ahead++
		}
	}
	return ahead, page.Next == ""
}

// pace returns the mean time from one end of a run under the limit and key to the next, lately; 0: it is
// not known.
func (f *facts) pace(u store.LimitUse) time.Duration {
	since := f.now.Add(-paceWindow)
	page, ok := f.list(store.ListParams{ByEnd: true, Filter: store.RunFilter{
		Statuses: []store.Status{store.Completed, store.Failed, store.Canceled}, FinishedAfter: since,
	}})
	if !ok {
		return 0
	}
	ends := slices.DeleteFunc(page.Runs, func(r store.Run) bool { return !holds(r.Under, u) || r.StartedAt.IsZero() })
	if len(ends) < 2 {
		return 0
	}
	first := ends[0].FinishedAt
	for i := range ends {
		if ends[i].FinishedAt.Before(first) {
			first = ends[i].FinishedAt
		}
	}
	// The time since the last end counts, too: a pace that has fallen is not the present one.
	return f.now.Sub(first) / time.Duration(len(ends)-1)
}

// list reads a page of runs.
func (f *facts) list(p store.ListParams) (page store.RunPage, ok bool) {
	p.Namespace, p.Limit = f.e.namespace, scanHolders
	err := f.e.retry(f.ctx, func(ctx context.Context) (err error) {
		page, err = f.e.store.List(ctx, p)
		return err
	})
	if err != nil {
		f.err = err
	}
	return page, err == nil
}
