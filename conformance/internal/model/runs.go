package model

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

func (s *Store) Create(ctx context.Context, p store.CreateParams) ([]store.CreateResult, error) {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := clock(p.Now)
	out := make([]store.CreateResult, len(p.Runs))
	for i := range p.Runs {
		out[i] = s.create(p.Namespace, &p.Runs[i], now)
	}
	return out, nil
}

func (s *Store) create(namespace string, n *store.NewRun, now time.Time) store.CreateResult {
	if err := n.Validate(s.limits); err != nil {
		return store.CreateResult{Err: err}
	}
	if n.Signal != nil {
		return s.createSignaled(namespace, n, now)
	}
	if r := s.runs[n.ID]; r != nil {
		if r.Namespace != namespace {
			return store.CreateResult{Err: fmt.Errorf("run %s: %w", n.ID, store.ErrAlreadyExists)}
		}
		res := n.Meets(r.ID, r.Workflow, r.Digest) // P4
		if res.Created && r.leased() && r.Epoch == 1 && r.Worker == n.Worker {
			res.Lease, res.CreatedAt = store.Lease{Run: r.ID, Worker: r.Worker, Epoch: r.Epoch}, r.CreatedAt
		}
		return res
	}
	if n.Debounce != "" {
		if id, replaced := s.replace(namespace, n, now); replaced {
			return store.CreateResult{ID: id}
		}
	}
	if n.ExternalID != "" {
		if id, taken := s.holders[external{namespace, n.ExternalID, n.Suffix}]; taken {
			return n.Meets(id, s.runs[id].Workflow, s.runs[id].Digest) // P8
		}
	}
	r := s.insert(namespace, n, now)
	res := store.CreateResult{ID: r.ID, Created: true}
	if n.Worker != "" && !s.held(r) && (len(r.Under) == 0 || s.breaks == LimitEager) {
		res.Lease, res.CreatedAt = r.lease(n.Worker, n.Build, n.LeaseFor, now), now
	} else {
		s.hintDue(r)
	}
	return res
}

// digest returns a copy of a digest, and nil for an empty one.
func digest(d []byte) []byte {
	if len(d) == 0 {
		return nil
	}
	return bytes.Clone(d)
}

// insert creates a pending run that no worker holds.
func (s *Store) insert(namespace string, n *store.NewRun, now time.Time) *run {
	r := &run{
		Run: store.Run{
			ID: n.ID, Namespace: namespace, Workflow: n.Workflow, Queue: n.Queue, Status: store.Pending,
			Priority: n.Priority, ExternalID: n.ExternalID, Suffix: n.Suffix, Reuse: n.Reuse, Digest: digest(n.Digest),
			Input: bytes.Clone(n.Input), Meta: bytes.Clone(n.Meta),
			Attempt: 1, CreatedAt: now, Under: store.SortUses(n.Under), Tags: n.Tags.Clone(),
		},
		state:  map[string]store.StateEntry{},
		had:    map[store.SignalID]bool{},
		groups: map[string]*store.Group{},
	}
	r.plan(n, now)
	s.runs[r.ID], s.live[r.ID] = r, r
	if r.ExternalID != "" {
		s.holders[external{namespace, r.ExternalID, r.Suffix}] = r.ID
	}
	s.tell(r, store.RunCreated, now)
	if n.Debounce != "" {
		s.debounced[debounceKey{namespace, n.Workflow, n.Debounce}] = r.ID
	}
	return r
}

// plan sets when a run is due that is started now, and its deadline.
func (r *run) plan(n *store.NewRun, now time.Time) {
	r.VisibleAt, r.Deadline = after(now, n.After), time.Time{}
	if at := micro(n.At); at.After(r.VisibleAt) {
		r.VisibleAt = at
	}
	if n.AtMost > 0 {
		r.VisibleAt = earliest(r.VisibleAt, after(r.CreatedAt, n.AtMost))
	}
	if n.Timeout > 0 {
		r.Deadline = after(now, n.Timeout)
		r.VisibleAt = earliest(r.VisibleAt, r.Deadline)
	}
}

func (s *Store) Get(ctx context.Context, p store.GetParams) ([]store.Run, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Run
	whole := atMost(p.MaxBytes)
	for _, id := range p.IDs {
		r := s.find(p.Namespace, id)
		if r == nil || p.FinalOnly && !r.Status.Final() {
			continue
		}
		row := r.row()
		if p.NoInput {
			row.Input, row.Meta = nil, nil
		}
		out = append(out, row)
		if !whole.take(runBytes(&row)) {
			omit(&out[len(out)-1])
		}
	}
	return out, nil
}

func (s *Store) Find(ctx context.Context, p store.FindParams) (store.Run, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.Run{}, err
	}
	defer s.mu.Unlock()
	if id, ok := s.holders[external{p.Namespace, p.ExternalID, p.Suffix}]; ok {
		return s.runs[id].row(), nil
	}
	last := s.lastWith(p.Namespace, p.ExternalID, p.Suffix, func(*run) bool { return true })
	if last == nil {
		return store.Run{}, fmt.Errorf("run of external id %q, suffix %q: %w", p.ExternalID, p.Suffix, store.ErrNotFound)
	}
	return last.row(), nil
}

// lastWith returns the run that was created last, of those of an external id that a condition
// selects, or nil if there is none.
func (s *Store) lastWith(namespace, id, suffix string, like func(*run) bool) *run {
	var last *run
	for _, r := range s.runs {
		if r.Namespace != namespace || r.ExternalID != id || r.Suffix != suffix || !like(r) {
			continue
		}
		if last == nil || byCreation(r, last) > 0 {
			last = r
		}
	}
	return last
}

// indexed returns the part of a filter that a list need not check in each run.
func indexed(f store.RunFilter) store.RunFilter {
	return store.RunFilter{
		Statuses:     f.Statuses,
		CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, FinishedAfter: f.FinishedAfter, FinishedBefore: f.FinishedBefore,
	}
}

// scan returns the runs that a call may look at, oldest first, with those that its filter
// selects, and how many of them it may look at.
//
// byEnd says that the order is that of the ends.
func (s *Store) scan(namespace string, f store.RunFilter, byEnd bool, most int) (looked []*run, selected map[*run]bool, bound int) {
	rows := s.selected(namespace, f)
	selected = make(map[*run]bool, len(rows))
	for _, r := range rows {
		selected[r] = true
	}
	if f.Few() {
		return rows, selected, store.ScanAll
	}
	if m := f.ByTag(); m != nil && !byEnd {
		with := store.RunFilter{CreatedAfter: f.CreatedAfter, CreatedBefore: f.CreatedBefore, Tags: []store.TagMatch{{Name: m.Name, Values: m.Values}}}
		return s.selected(namespace, with), selected, cmp.Or(most, store.DefaultScan)
	}
	rows = s.selected(namespace, indexed(f))
	if f.ByBuild() {
		rows = slices.DeleteFunc(rows, func(r *run) bool { return !r.Status.Final() && !slices.Contains(f.PinnedTo, r.PinnedTo()) })
	}
	return rows, selected, cmp.Or(most, store.DefaultScan)
}

// selected returns the runs that a filter selects, oldest first.
func (s *Store) selected(namespace string, f store.RunFilter) []*run {
	lo, hi, _ := store.IDRange(f.IDPrefix) // Validate has seen it
	var out []*run
	for _, r := range s.runs {
		if r.Namespace == namespace &&
			oneOf(f.Statuses, r.Status) &&
			(f.Workflow == "" || r.Workflow == f.Workflow) &&
			(f.Queue == "" || r.Queue == f.Queue) &&
			(f.Parent.IsZero() || r.Parent == f.Parent) &&
			(f.ExternalID == "" || r.ExternalID == f.ExternalID) &&
			compareIDs(lo, r.ID) <= 0 && compareIDs(r.ID, hi) <= 0 &&
			(f.CreatedAfter.IsZero() || r.CreatedAt.After(micro(f.CreatedAfter))) &&
			(f.CreatedBefore.IsZero() || r.CreatedAt.Before(micro(f.CreatedBefore))) &&
			(f.FinishedAfter.IsZero() || r.Status.Final() && r.FinishedAt.After(micro(f.FinishedAfter))) &&
			(f.FinishedBefore.IsZero() || r.Status.Final() && r.FinishedAt.Before(micro(f.FinishedBefore))) &&
			(!f.Pinned || r.Pin != nil) && (len(f.PinnedTo) == 0 || r.Pin != nil && slices.Contains(f.PinnedTo, r.Pin.Build)) &&
			f.MatchesTags(r.Tags) &&
			(f.FailureCode == "" || r.Failure != nil && r.Failure.Code == f.FailureCode) &&
			(f.FailureText == "" || r.Failure != nil && strings.Contains(r.Failure.Message, f.FailureText)) &&
			(f.FailedStep == "" || r.anyStep(func(st store.Step) bool { return st.Status == store.StepFailed && st.Name == f.FailedStep })) &&
			(r.Attempt >= f.MinAttempt || r.anyStep(func(st store.Step) bool { return !st.Status.Final() && st.Attempt >= f.MinAttempt })) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, byCreation)
	return out
}

// byCreation orders runs by their creation, those of one moment by their IDs.
func byCreation(a, b *run) int {
	p := store.ListParams{}
	return p.PositionOf(&a.Run).Compare(p.PositionOf(&b.Run))
}

func (r *run) anyStep(like func(store.Step) bool) bool { return slices.ContainsFunc(r.steps, like) }

func (s *Store) List(ctx context.Context, p store.ListParams) (store.RunPage, error) {
	pos, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.RunPage{}, err
	}
	defer s.mu.Unlock()
	limit, _ := store.Page(p.Limit)
	rows, selected, bound := s.scan(p.Namespace, p.Filter, p.ByEnd, p.MaxScan)
	if p.ByEnd {
		rows = slices.DeleteFunc(rows, func(r *run) bool { return !r.Status.Final() })
		slices.SortFunc(rows, func(a, b *run) int { return p.PositionOf(&a.Run).Compare(p.PositionOf(&b.Run)) })
	}
	if !p.OldestFirst {
		slices.Reverse(rows)
	}
	var page store.RunPage
	failures := atMost(store.PageBytes)
	var last store.RunPosition // of what was looked at
	for _, r := range rows {
		if c := p.PositionOf(&r.Run).Compare(pos); p.Cursor != "" && (c == 0 || c > 0 != p.OldestFirst) {
			continue // on an earlier page
		}
		if bound == 0 {
			page.Next = p.NextCursor(last)
			break
		}
		bound--
		last = p.PositionOf(&r.Run)
		if !selected[r] {
			continue
		}
		if n := len(page.Runs); n == limit || !failures.take(failureBytes(r.Failure)) {
			page.Next = p.CursorBehind(&page.Runs[n-1])
			break
		}
		row := r.row()
		row.Input, row.Output, row.Meta = nil, nil, nil
		page.Runs = append(page.Runs, row)
	}
	return page, nil
}

func (s *Store) Count(ctx context.Context, p store.CountParams) ([]store.RunCount, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ended := !p.Filter.FinishedAfter.IsZero() || !p.Filter.FinishedBefore.IsZero()
	rows, selected, bound := s.scan(p.Namespace, p.Filter, ended, p.MaxScan)
	part := func(st store.Status) store.Status { return st }
	parts := make([][]store.Status, store.Canceled+1)
	for _, st := range store.Statuses() {
		parts[st] = []store.Status{st}
	}
	if p.Filter.ByTag() != nil && !ended { // all statuses share the bound
		part = func(store.Status) store.Status { return 0 }
		parts[0] = p.Filter.Wanted()
	}
	if ended {
		byEnd := store.ListParams{ByEnd: true}
		slices.SortFunc(rows, func(a, b *run) int { return byEnd.PositionOf(&a.Run).Compare(byEnd.PositionOf(&b.Run)) })
	}
	looked, others := map[store.Status]int{}, map[store.Status]int64{}
	counts := map[store.RunCount]int64{} // by rows without their count
	for _, r := range slices.Backward(rows) {
		if looked[part(r.Status)] == bound {
			continue
		}
		looked[part(r.Status)]++
		if !selected[r] {
			others[part(r.Status)]++
			continue
		}
		row := store.RunCount{Queue: r.Queue, Workflow: r.Workflow, Status: r.Status}
		if p.ByFailure && r.Failure != nil {
			row.FailureCode = r.Failure.Code
		}
		counts[row]++
	}
	var tally store.CountTally
	for c, n := range counts {
		c.Count = n
		tally.Add(int(part(c.Status)), c, true)
	}
	for st, n := range others {
		tally.Add(int(st), store.RunCount{Count: n}, false)
	}
	return tally.Rows(bound, parts), nil
}

func (s *Store) Children(ctx context.Context, p store.ChildrenParams) (store.ChildPage, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.ChildPage{}, err
	}
	defer s.mu.Unlock()
	limit, _ := store.Page(p.Limit)
	var out []store.Run
	for _, id := range s.children[p.Parent] {
		if c := s.find(p.Namespace, id); c != nil && c.Group == p.Group && c.Ordinal > p.After {
			row := c.row()
			row.Input, row.Meta = nil, nil
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b store.Run) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), compareIDs(a.ID, b.ID))
	})
	out = out[:min(limit, len(out))]
	whole := atMost(p.MaxBytes)
	for i := range out {
		if !whole.take(runBytes(&out[i])) {
			omit(&out[i])
		}
	}
	return p.PageOf(out), nil
}

func (s *Store) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	if err := s.look(ctx, p.Validate()); err != nil {
		return store.StepPage{}, err
	}
	defer s.mu.Unlock()
	r := s.find(p.Namespace, p.Run)
	if r == nil {
		return store.StepPage{}, notFound(p.Run)
	}
	limit, _ := store.Page(p.Limit)
	from, _ := slices.BinarySearchFunc(r.steps, p.After+1, func(st store.Step, at int64) int { return cmp.Compare(st.Position, at) })
	return p.PageOf(upTo(r.steps[from:], limit, atMost(p.MaxBytes), stepBytes, cloneStep)), nil
}
