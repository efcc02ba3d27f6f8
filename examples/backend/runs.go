package backend

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// Get implements [store.Runs].
func (s *Store) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (out []store.Run, err error) {
		payloads := []byte{input, output, meta}
		if p.NoInput {
			payloads = []byte{output}
		}
		for _, id := range p.IDs {
			if r := t.run(p.Namespace, id); r != nil && (r.Status.Final() || !p.FinalOnly) {
				out = append(out, t.row(r, payloads...))
			}
		}
		storekit.OmitBeyond(out, p.MaxBytes)
		return out, nil
	})
}

// Find implements [store.Runs].
func (s *Store) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.Run, error) {
		if r := t.holder(p.Namespace, p.ExternalID, p.Suffix); r != nil {
			return t.row(r, input, output, meta), nil
		}
		for last := range t.scan(namedKey(p.Namespace, p.ExternalID).Name(p.Suffix).All(), true) {
			return t.row(t.anyRun(storekit.LastID(last.Key)), input, output, meta), nil
		}
		return store.Run{}, fmt.Errorf("run of external id %q, suffix %q: %w", p.ExternalID, p.Suffix, store.ErrNotFound)
	})
}

// Children implements [store.Runs].
func (s *Store) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (store.ChildPage, error) {
		limit, _ := store.Page(p.Limit)
		var out []store.Run
		group := childKey(p.Parent, p.Group)
		for pair := range t.scan(between(group.Number(p.After+1), group.End()), false) {
			if len(out) == limit {
				break
			}
			if c := t.run(p.Namespace, storekit.LastID(pair.Key)); c != nil {
				out = append(out, t.row(c, output))
			}
		}
		storekit.OmitBeyond(out, p.MaxBytes)
		return p.PageOf(out), nil
	})
}

// Steps implements [store.Runs].
func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) (page store.StepPage, err error) {
		if t.run(p.Namespace, p.Run) == nil {
			return page, storekit.NotFound(p.Run)
		}
		limit, _ := store.Page(p.Limit)
		return p.PageOf(storekit.Collect(t.steps(p.Run, p.After), limit, storekit.FirstAndUpTo(p.MaxBytes), storekit.StepSize)), nil
	})
}

// List implements [store.Runs].
func (s *Store) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	pos, err := p.Position()
	return view(ctx, s, cmp.Or(p.Validate(), err), noTime, func(t *tx) (page store.RunPage, err error) {
		limit, _ := store.Page(p.Limit)
		order := listing{byEnd: p.ByEnd, oldestFirst: p.OldestFirst}
		if p.Cursor != "" {
			order.after = &pos
		}
		failures := storekit.FirstAndUpTo(store.PageBytes)
		ids, left := t.candidates(p.Namespace, &p.Filter, order, p.MaxScan)
		for id := range ids {
			if left == 0 {
				page.Next = p.NextCursor(pos)
				break
			}
			left--
			r := t.anyRun(id)
			pos = p.PositionOf(&r.Run)
			if !t.matches(&p.Filter, r) {
				continue
			}
			if n := len(page.Runs); n == limit || !failures.Take(storekit.FailureSize(r.Failure)) {
				page.Next = p.CursorBehind(&page.Runs[n-1])
				break
			}
			page.Runs = append(page.Runs, t.row(r))
		}
		return page, nil
	})
}

// Count implements [store.Runs].
func (s *Store) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	return view(ctx, s, p.Validate(), noTime, func(t *tx) ([]store.RunCount, error) {
		order := listing{byEnd: !p.Filter.FinishedAfter.IsZero() || !p.Filter.FinishedBefore.IsZero()}
		counts := map[store.RunCount]int64{} // by rows without their count
		var tally store.CountTally
		parts := make([][]store.Status, store.Canceled+1)
		for part, statuses := range countParts(&p.Filter, order) {
			parts[part] = statuses
			filter, others := p.Filter, int64(0)
			filter.Statuses = statuses
			ids, left := t.candidates(p.Namespace, &filter, order, p.MaxScan)
			for id := range ids {
				if left == 0 {
					break
				}
				left--
				r := t.anyRun(id)
				if !t.matches(&filter, r) {
					others++
					continue
				}
				row := store.RunCount{Queue: r.Queue, Workflow: r.Workflow, Status: r.Status}
				if p.ByFailure && r.Failure != nil {
					row.FailureCode = r.Failure.Code
				}
				counts[row]++
			}
			tally.Add(part, store.RunCount{Count: others}, false)
			for row, n := range counts {
				row.Count = n
				tally.Add(part, row, true)
			}
			clear(counts)
		}
		return tally.Rows(scans(&p.Filter, p.MaxScan), parts), nil
	})
}

// countParts divides the statuses of a count: each has a part of its own, unless an index has the
// runs of all statuses together.
func countParts(f *store.RunFilter, order listing) (parts [][]store.Status) {
	wanted := f.Wanted()
	if f.ByTag() != nil && !order.byEnd && len(wanted) > 0 {
		return [][]store.Status{wanted}
	}
	for _, status := range wanted {
		parts = append(parts, []store.Status{status})
	}
	return parts
}

// matches applies a filter to a run.
func (t *tx) matches(f *store.RunFilter, r *storekit.Run) bool {
	return storekit.Matches(f, &r.Run, func(like func(*store.Step) bool) bool {
		for st := range t.steps(r.ID, 0) {
			if like(&st) {
				return true
			}
		}
		return false
	})
}

// listing is an order of runs, and where it goes on.
type listing struct {
	byEnd       bool // else by creation
	oldestFirst bool
	after       *store.RunPosition // nil: it begins
}

// scans is how many runs of a listing may be looked at.
func scans(f *store.RunFilter, maxScan int) int {
	if f.Few() {
		return store.ScanAll
	}
	return cmp.Or(maxScan, store.DefaultScan)
}

// candidates yields the runs among which are those that a filter selects, and returns how
// many of them may be looked at.
func (t *tx) candidates(namespace string, f *store.RunFilter, order listing, maxScan int) (iter.Seq[store.ID], int) {
	if f.Few() {
		return slices.Values(t.few(namespace, f, order)), scans(f, maxScan)
	}
	return t.listed(namespace, f, order), scans(f, maxScan)
}

// listed yields the runs of the filter's statuses or of its tag, of its times, and, if they are not
// final, of its builds, by indexes that have them in their order.
func (t *tx) listed(namespace string, f *store.RunFilter, order listing) iter.Seq[store.ID] {
	kind, since, before := byte(kindMade), f.CreatedAfter, f.CreatedBefore
	if order.byEnd {
		kind, since, before = kindEnded, f.FinishedAfter, f.FinishedBefore
	}
	var lines []storekit.Line
	statuses := f.Wanted()
	if m := f.ByTag(); m != nil && !order.byEnd {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(m.Values))) {
			lines = append(lines, order.line(tagKey(namespace, m.Name, value), since, before))
		}
		statuses = nil
	}
	for _, status := range statuses {
		if order.byEnd && !status.Final() {
			continue
		}
		prefixes := []key{statusKey(kind, namespace, status)}
		if f.ByBuild() && !status.Final() {
			prefixes = nil
			for _, build := range slices.Compact(slices.Sorted(slices.Values(f.PinnedTo))) {
				prefixes = append(prefixes, pinnedKey(namespace, build, status))
			}
		}
		for _, prefix := range prefixes {
			lines = append(lines, order.line(prefix, since, before))
		}
	}
	return func(yield func(store.ID) bool) {
		for _, k := range t.merge(lines, !order.oldestFirst, nil) {
			if !yield(storekit.LastID(k)) {
				return
			}
		}
	}
}

// line is the part of a listing whose keys begin with the prefix, followed by a time and an ID.
func (order listing) line(prefix key, since, before time.Time) storekit.Line {
	s := prefix.All()
	if !since.IsZero() {
		s.From = prefix.Time(storekit.Micro(since).Add(time.Microsecond))
	}
	if !before.IsZero() {
		s.To = prefix.Time(storekit.Micro(before))
	}
	if order.after != nil {
		s = s.Behind(prefix.Time(order.after.At).ID(order.after.ID), !order.oldestFirst)
	}
	return storekit.Line{Span: s, Skip: len(prefix)}
}

// few returns the runs that a filter of few runs selects, by an index of their own.
func (t *tx) few(namespace string, f *store.RunFilter, order listing) (ids []store.ID) {
	switch {
	case !f.Parent.IsZero():
		ids = t.ids(keyOf(kindChild).ID(f.Parent).All())
	case f.ExternalID != "":
		ids = t.ids(namedKey(namespace, f.ExternalID).All())
	default:
		lo, hi, _ := store.IDRange(f.IDPrefix) // Validate has seen it
		ids = t.ids(between(runKey(lo), runKey(hi).Next()))
	}
	list := store.ListParams{ByEnd: order.byEnd}
	at := map[store.ID]store.RunPosition{}
	for _, id := range ids {
		r := t.run(namespace, id)
		if r == nil || !t.matches(f, r) || order.byEnd && !r.Status.Final() {
			continue
		}
		pos := list.PositionOf(&r.Run)
		if order.after == nil || pos.Compare(*order.after) != 0 && pos.Compare(*order.after) > 0 == order.oldestFirst {
			at[id] = pos
		}
	}
	ids = slices.DeleteFunc(ids, func(id store.ID) bool { _, ok := at[id]; return !ok })
	slices.SortFunc(ids, func(a, b store.ID) int { return at[a].Compare(at[b]) })
	if !order.oldestFirst {
		slices.Reverse(ids)
	}
	return ids
}
