package backend

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/store"
	"github.com/pawlhq/pawl/store/storekit"
)

// limitRecord is a limit as it is stored.
type limitRecord struct {
	store.Limit
	Code  bool  // code has registered it
	Clock int64 // the virtual clock
	None  bool  // it is not a limit: only the clock of one that runs use
}

// markFlow is a mark as it is stored: a flow cannot be written with its Lane embedded.
type markRecord struct {
	Freed []store.LimitUse
	News  string // the text of the flow
}

func limitRecordKey(namespace, limit string) key {
	return keyOf(kindLimit).Name(namespace).Name(limit)
}

func limitKeyKey(namespace string, id storekit.LimitKeyID) key {
	return keyOf(kindLimitKey).Name(namespace).Name(id.Limit).Name(id.Key)
}

func tokensKey(namespace string, k *storekit.LimitKeyState) key {
	return keyOf(kindTokens).Name(namespace).Number(k.NextAt).Name(k.Limit).Name(k.Key)
}

func flowKey(namespace string, f *storekit.Flow) key {
	hash := f.Hash()
	return keyOf(kindFlow).Name(namespace).And(hash[:]...)
}

func flowRunsKey(namespace string, f *storekit.Flow) key {
	hash := f.Hash()
	return keyOf(kindFlowRun).Name(namespace).And(hash[:]...)
}

// fairKey begins the keys of the flows whose turn a key of a fair limit decides.
func fairKey(namespace string, k storekit.LimitKeyID) key {
	return keyOf(kindFair).Name(namespace).Name(k.Limit).Name(k.Key)
}

// flowPlaces returns the keys of the indexes in which a flow stands: ready, by its lane and head, or parked at a key;
// and by the key that decides its turn.
func flowPlaces(namespace string, f *storekit.FlowState) (places []key) {
	hash := f.Hash()
	if f.Fair != nil {
		places = append(places, fairKey(namespace, *f.Fair).And(hash[:]...))
	}
	if f.Parked == nil {
		return append(places, laneKind(kindReady, namespace, f.Lane).Priority(f.Priority).Time(f.HeadAt).ID(f.HeadID))
	}
	places = append(places, keyOf(kindParked).Name(namespace).Name(f.Parked.Limit).Name(f.Parked.Key).And(hash[:]...))
	if f.Need > 0 {
		places = append(places, laneKind(kindNeeds, namespace, f.Lane).And(hash[:]...))
	}
	return places
}

// mark notes what a write means for the limits of a run.
func (t *tx) mark(from, to *storekit.Run) {
	if from == nil {
		from = &storekit.Run{}
	}
	if to == nil {
		to = &storekit.Run{}
	}
	if t.planned {
		return // the plan of a claim counts its leases
	}
	for _, m := range storekit.LimitMarksOf(from, to) {
		t.putMark(cmp.Or(to.Namespace, from.Namespace), m)
	}
}

func (t *tx) putMark(namespace string, m storekit.LimitMark) {
	prefix := keyOf(kindMark).Name(namespace)
	var last int64
	for p := range t.scan(prefix.All(), true) {
		last = storekit.LastNumber(p.Key)
		break
	}
	rec := markRecord{Freed: m.Freed}
	if m.News.Limited() {
		rec.News = m.News.Text()
	}
	t.write(prefix.Number(last+1), &rec)
}

// limited reports whether limits matter for the claims of a namespace.
func (t *tx) limited(namespace string) bool {
	for _, kind := range []byte{kindMark, kindFlow, kindTokens} {
		if _, found := t.first(keyOf(kind).Name(namespace).All()); found {
			return true
		}
	}
	return false
}

// limitSource is the [storekit.LimitSource] of a claim.
type limitSource struct {
	*claim
	marks []key
}

var _ storekit.LimitSource = (*limitSource)(nil)

// Limits implements [storekit.LimitSource].
func (l *limitSource) Limits() (out []storekit.LimitState, err error) {
	for rec := range values[limitRecord](l.tx, keyOf(kindLimit).Name(l.p.Namespace).All()) {
		out = append(out, storekit.LimitState{Name: rec.Name, Rule: rec.Effective(), Clock: rec.Clock})
	}
	return out, nil
}

// Marks implements [storekit.LimitSource].
func (l *limitSource) Marks() (out []storekit.LimitMark, err error) {
	for p := range l.scan(keyOf(kindMark).Name(l.p.Namespace).All(), false) {
		var rec markRecord
		check(read(p.Value, &rec))
		m := storekit.LimitMark{Freed: rec.Freed}
		if rec.News != "" {
			m.News, err = storekit.ParseFlow(rec.News)
			check(err)
		}
		out, l.marks = append(out, m), append(l.marks, bytes.Clone(p.Key))
	}
	return out, nil
}

// Keys implements [storekit.LimitSource].
func (l *limitSource) Keys(ids []storekit.LimitKeyID) ([]storekit.LimitKeyState, error) {
	out := make([]storekit.LimitKeyState, len(ids))
	for i, id := range ids {
		l.load(limitKeyKey(l.p.Namespace, id), &out[i])
	}
	return out, nil
}

// Flows implements [storekit.LimitSource].
func (l *limitSource) Flows(flows []storekit.Flow) ([]*storekit.FlowState, error) {
	out := make([]*storekit.FlowState, len(flows))
	for i := range flows {
		var f storekit.FlowState
		if l.load(flowKey(l.p.Namespace, &flows[i]), &f) {
			out[i] = &f
		}
	}
	return out, nil
}

// Heads implements [storekit.LimitSource].
func (l *limitSource) Heads(flows []storekit.Flow, n int) ([][]storekit.LimitRun, error) {
	out := make([][]storekit.LimitRun, len(flows))
	for i := range flows {
		prefix := flowRunsKey(l.p.Namespace, &flows[i])
		var ids []store.ID
		for p := range l.scan(prefix.All(), false) {
			if ids = append(ids, storekit.LastID(p.Key)); len(ids) == n {
				break
			}
		}
		for _, id := range ids {
			r := l.run(l.p.Namespace, id)
			row := l.row(r, input, meta)
			out[i] = append(out[i], storekit.LimitRun{ID: id, VisibleAt: r.VisibleAt, Size: storekit.ClaimSize(&row)})
		}
	}
	return out, nil
}

// Paused implements [storekit.LimitSource].
func (l *limitSource) Paused(lane storekit.Lane) (bool, error) {
	return l.paused(l.p.Namespace, lane), nil
}

// TokensDue implements [storekit.LimitSource].
func (l *limitSource) TokensDue() (out []storekit.LimitKeyID, err error) {
	prefix := keyOf(kindTokens).Name(l.p.Namespace)
	for k := range values[storekit.LimitKeyID](l.tx, between(prefix, prefix.Number(l.now.UnixMicro()+1))) {
		out = append(out, k)
	}
	return out, nil
}

// Ready implements [storekit.LimitSource]. The flows of a lane and a priority are in the order of P7; turns are few
// enough to sort, because flows that a limit holds back are not among them.
func (l *limitSource) Ready(q storekit.ReadyQuery) (out []storekit.FlowState, err error) {
	for _, lane := range storekit.Lanes(l.p) {
		if l.paused(l.p.Namespace, lane) {
			continue
		}
		k := laneKind(kindReady, l.p.Namespace, lane)
		for _, prefix := range l.priorities(k) {
			for f := range values[storekit.FlowState](l.tx, l.due(prefix)) {
				fair := f.Fair != nil && f.Fair.Limit == q.Fair || f.Fair == nil && q.Fair == ""
				if fair && (q.After == nil || q.Compare(&f, q.After) > 0) {
					out = append(out, f)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b storekit.FlowState) int { return q.Compare(&a, &b) })
	return out[:min(len(out), q.Rows)], nil
}

// Parked implements [storekit.LimitSource].
func (l *limitSource) Parked(qs []storekit.ParkedQuery) (out []storekit.ParkedFlows, err error) {
	clocks := map[string]int64{}
	for rec := range values[limitRecord](l.tx, keyOf(kindLimit).Name(l.p.Namespace).All()) {
		clocks[rec.Name] = rec.Clock
	}
	for _, q := range qs {
		all := slices.Collect(values[storekit.FlowState](l.tx, keyOf(kindParked).Name(l.p.Namespace).Name(q.Key.Limit).Name(q.Key.Key).All()))
		out = append(out, q.Of(all, clocks))
	}
	return out, nil
}

// Plain implements [storekit.LimitSource].
func (l *limitSource) Plain() (out []storekit.PlainRun, err error) {
	rules := storekit.NewClaim(l.p)
	for i, r := range l.plain(rules.Wants) {
		row := l.row(r, input, meta)
		if rules.Take(l.lines[i].lane, 0) {
			out = append(out, storekit.PlainRun{LimitRun: storekit.LimitRun{ID: r.ID, VisibleAt: r.VisibleAt, Size: storekit.ClaimSize(&row)}, Lane: r.LaneOf(), Priority: r.Priority})
		}
	}
	return out, nil
}

// takeUnderLimits leases the runs that a plan picks, and stores what the plan says.
func (c *claim) takeUnderLimits() {
	src := &limitSource{claim: c}
	plan, err := storekit.PlanLimits(c.p, c.now, src)
	check(err)
	for _, k := range src.marks {
		c.delete(k)
	}
	c.planned = true
	for _, pick := range plan.Picks {
		r := c.run(c.p.Namespace, pick.ID)
		r.Lease(c.p.Worker, c.p.Build, c.p.LeaseFor, c.p.ClaimID, c.now)
		c.save(r, true)
		c.add(r)
	}
	c.planned = false
	c.storePlan(plan)
	for _, q := range plan.Stirred {
		c.hints = append(c.hints, store.Hint{Kind: store.HintQueue, Namespace: c.p.Namespace, Queue: q})
	}
}

// storePlan stores the keys, flows and clocks of a plan.
func (c *claim) storePlan(plan *storekit.LimitPlan) {
	for i := range plan.Keys {
		k := &plan.Keys[i]
		if old := c.dropKey(k.LimitKeyID); old.VTime != k.VTime {
			c.turn(k)
		}
		c.putKey(k)
	}
	for _, id := range plan.IdleKeys {
		c.dropKey(id)
	}
	for i := range plan.Gone {
		c.dropFlow(&plan.Gone[i].Flow)
	}
	for i := range plan.Flows {
		f := &plan.Flows[i]
		c.dropFlow(&f.Flow)
		c.putFlow(f)
	}
	for limit, clock := range plan.Clocks {
		rec := limitRecord{Limit: store.Limit{Name: limit}, None: true}
		c.load(limitRecordKey(c.p.Namespace, limit), &rec)
		rec.Clock = clock
		c.write(limitRecordKey(c.p.Namespace, limit), &rec)
	}
}

// dropKey deletes a key's record, and returns what it was.
func (c *claim) dropKey(id storekit.LimitKeyID) (old storekit.LimitKeyState) {
	if c.load(limitKeyKey(c.p.Namespace, id), &old) {
		c.delete(limitKeyKey(c.p.Namespace, id))
		if old.NextAt > 0 {
			c.delete(tokensKey(c.p.Namespace, &old))
		}
	}
	return old
}

func (c *claim) putKey(k *storekit.LimitKeyState) {
	c.write(limitKeyKey(c.p.Namespace, k.LimitKeyID), k)
	if k.NextAt > 0 {
		c.write(tokensKey(c.p.Namespace, k), &k.LimitKeyID)
	}
}

func (c *claim) dropFlow(f *storekit.Flow) {
	var old storekit.FlowState
	if c.load(flowKey(c.p.Namespace, f), &old) {
		c.delete(flowKey(c.p.Namespace, f))
		for _, k := range flowPlaces(c.p.Namespace, &old) {
			c.delete(k)
		}
	}
}

func (c *claim) putFlow(f *storekit.FlowState) {
	c.write(flowKey(c.p.Namespace, &f.Flow), f)
	for _, k := range flowPlaces(c.p.Namespace, f) {
		c.write(k, f)
	}
}

// turn gives all flows of a key its new virtual time.
func (c *claim) turn(k *storekit.LimitKeyState) {
	var flows []storekit.FlowState
	for f := range values[storekit.FlowState](c.tx, fairKey(c.p.Namespace, k.LimitKeyID).All()) {
		flows = append(flows, f)
	}
	for i := range flows {
		c.dropFlow(&flows[i].Flow)
		flows[i].Turn = k.VTime
		c.putFlow(&flows[i])
	}
}

// restUnderLimits tells of the flows of which nothing was taken.
func (c *claim) restUnderLimits(lane storekit.Lane) {
	k := laneKind(kindReady, c.p.Namespace, lane)
	for _, prefix := range c.priorities(k) {
		first, _ := c.first(prefix.All())
		at := storekit.KeyTime(string(first[len(prefix):][:8]))
		c.out.NextDue = storekit.Earliest(c.out.NextDue, at)
		if c.p.Wanted() > 0 && !at.After(c.now) {
			c.out.Waiting = store.Waits(c.out.Waiting, lane.Queue, lane.Workflow, at)
		}
	}
	if _, needs := c.first(laneKind(kindNeeds, c.p.Namespace, lane).All()); needs {
		prefix := keyOf(kindTokens).Name(c.p.Namespace)
		if first, found := c.first(prefix.All()); found {
			c.out.NextDue = storekit.Earliest(c.out.NextDue, storekit.KeyTime(string(first[len(prefix):][:8])))
		}
	}
}

// PutLimits implements [store.Limiter].
func (s *Store) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error {
		for _, in := range p.Limits {
			rec := limitRecord{Limit: store.Limit{Name: in.Name}}
			t.load(limitRecordKey(p.Namespace, in.Name), &rec)
			if rec.Code && rec.Rule == in.Rule {
				continue
			}
			rec.Code, rec.None, rec.Rule = true, false, in.Rule
			t.putLimit(p.Namespace, &rec)
		}
		return nil
	})
}

// putLimit stores a limit that has changed, and has all flows under it looked at again.
func (t *tx) putLimit(namespace string, rec *limitRecord) {
	rec.UpdatedAt = t.now
	t.write(limitRecordKey(namespace, rec.Name), rec)
	var flows []storekit.Flow
	for f := range values[storekit.FlowState](t, keyOf(kindFlow).Name(namespace).All()) {
		if slices.ContainsFunc(f.Uses, func(u store.LimitUse) bool { return u.Limit == rec.Name }) {
			flows = append(flows, f.Flow)
		}
	}
	for _, f := range flows {
		t.putMark(namespace, storekit.LimitMark{News: f})
	}
	t.rescan()
}

// SetLimit implements [store.Limiter].
func (s *Store) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error {
		rec := limitRecord{Limit: store.Limit{Name: p.Name}, None: true}
		t.load(limitRecordKey(p.Namespace, p.Name), &rec)
		switch {
		case p.Rule == nil && rec.None:
			return fmt.Errorf("limit %q: %w", p.Name, store.ErrNotFound)
		case p.Rule == nil && rec.Set == nil, p.Rule != nil && rec.Set != nil && *p.Rule == *rec.Set:
			t.record(p.Namespace, p.Record, 0, false)
			return nil
		}
		t.record(p.Namespace, p.Record, 0, true)
		rec.Set = p.Rule
		rec.None = p.Rule == nil && !rec.Code
		t.putLimit(p.Namespace, &rec)
		return nil
	})
}

// ListLimits implements [store.Limiter].
func (s *Store) ListLimits(ctx context.Context, p store.ListLimitsParams) (store.LimitPage, error) {
	after, err := p.Position()
	return view(ctx, s, cmp.Or(p.Validate(), err), noTime, func(t *tx) (page store.LimitPage, err error) {
		limit, _ := store.Page(p.Limit)
		for rec := range values[limitRecord](t, keyOf(kindLimit).Name(p.Namespace).All()) {
			if rec.None || rec.Name <= after || len(p.Names) > 0 && !slices.Contains(p.Names, rec.Name) {
				continue
			}
			if len(page.Limits) == limit {
				page.Next = p.NextCursor(page.Limits[limit-1].Name)
				break
			}
			page.Limits = append(page.Limits, rec.Limit)
		}
		return page, nil
	})
}

// LimitKeys implements [store.Limiter].
func (s *Store) LimitKeys(ctx context.Context, p store.LimitKeysParams) (store.LimitKeyPage, error) {
	after, begun, err := p.Position()
	return view(ctx, s, cmp.Or(p.Validate(), err), p.Now, func(t *tx) (page store.LimitKeyPage, err error) {
		rows := t.limitKeys(p.Namespace, p.Limit)
		keys := make([]string, 0, len(rows))
		for k := range rows {
			if (p.Key == nil || *p.Key == k) && (!begun || k > after) {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		most, _ := store.Page(p.Rows)
		for _, k := range keys[:min(most, len(keys))] {
			page.Keys = append(page.Keys, *rows[k])
		}
		if len(keys) > most {
			page.Next = p.NextCursor(keys[most-1])
		}
		return page, nil
	})
}

// limitKeys returns the keys of a limit of which there is something to tell.
func (t *tx) limitKeys(namespace, limit string) map[string]*store.LimitKey {
	rows := map[string]*store.LimitKey{}
	row := func(key string) *store.LimitKey {
		if rows[key] == nil {
			rows[key] = &store.LimitKey{Key: key, Weight: 1}
		}
		return rows[key]
	}
	for _, id := range t.ids(keyOf(kindUse).Name(namespace).Name(limit).All()) {
		r := t.run(namespace, id)
		for _, u := range slices.Concat(r.Under, r.StepUnder) {
			switch {
			case u.Limit != limit:
			case r.Leased():
				row(u.Key).Held++
			case r.Due(t.now):
				k := row(u.Key)
				k.Waiting, k.Since = min(k.Waiting+1, store.MaxWaiting), storekit.Earliest(k.Since, r.VisibleAt)
			}
		}
	}
	var rec limitRecord
	t.load(limitRecordKey(namespace, limit), &rec)
	for state := range values[storekit.LimitKeyState](t, keyOf(kindLimitKey).Name(namespace).Name(limit).All()) {
		if at := state.RateAt(rec.Effective(), t.now); !at.IsZero() {
			row(state.Key).RateAt = at
		}
		if state.Weight > 1 {
			row(state.Key).Weight = state.Weight
		}
	}
	return rows
}

// SetWeight implements [store.Limiter].
func (s *Store) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	return act(ctx, s, p.Validate(), p.Now, func(t *tx) error {
		state := storekit.LimitKeyState{LimitKeyID: storekit.LimitKeyID{Limit: p.Limit, Key: p.Key}}
		t.load(limitKeyKey(p.Namespace, state.LimitKeyID), &state)
		state.Weight = p.Weight
		t.record(p.Namespace, p.Record, 0, true)
		t.write(limitKeyKey(p.Namespace, state.LimitKeyID), &state)
		return nil
	})
}
