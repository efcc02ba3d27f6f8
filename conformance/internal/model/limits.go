package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/store"
)

// limit is a limit that exists.
type limit struct {
	rule    store.LimitRule
	set     *store.LimitRule
	code    bool // code has registered it
	updated time.Time
}

type limitKey struct{ namespace, limit, key string }

// keyState is what is known of a key beside its leases, which are those of the runs (P24). It is never
// forgotten.
type keyState struct {
	tat    int64 // P22, in microseconds
	vtime  int64 // P23
	weight int64 // 0: 1
}

// rule returns the rule of a limit that is in force.
func (s *Store) rule(namespace, limit string) store.LimitRule {
	l := s.rules[name{namespace, limit}]
	switch {
	case l == nil:
		return store.LimitRule{}
	case l.set != nil && s.breaks != LimitIgnoresSet:
		return *l.set
	}
	return l.rule
}

func (s *Store) key(namespace, limit, key string) *keyState {
	id := limitKey{namespace, limit, key}
	if s.keys[id] == nil {
		s.keys[id] = &keyState{}
	}
	return s.keys[id]
}

// countPermits counts the leases under each limit and key: those of all runs, also if they have expired
// (P24).
func (s *Store) countPermits() {
	s.counted = maps.Clone(s.leaked)
	for _, r := range s.live {
		if r.leased() && !(s.breaks == LimitForgetsExpired && !r.VisibleAt.After(s.at)) {
			s.count(r, 1)
		}
	}
}

// countKey returns the key under which a run is counted.
func (s *Store) countKey(r *run, u store.LimitUse) limitKey {
	switch s.breaks {
	case LimitForgetsKeys:
		u.Key = ""
	case LimitCrossNamespaces:
		return limitKey{"", u.Limit, u.Key}
	}
	return limitKey{r.Namespace, u.Limit, u.Key}
}

// count counts the permits of a run.
func (s *Store) count(r *run, n int64) {
	for _, u := range slices.Concat(r.Under, r.StepUnder) {
		s.counted[s.countKey(r, u)] += n
	}
}

// demands are the uses of a run as the next claim counts them: with the tokens that it takes, 0 if it takes
// none.
func (r *run) demands() []store.LimitUse {
	own := slices.Clone(r.Under)
	for i := range own {
		if r.charged {
			own[i].Tokens = 0
		}
	}
	all := append(own, r.StepUnder...)
	slices.SortFunc(all, func(a, b store.LimitUse) int { return cmp.Compare(a.Limit, b.Limit) })
	return all
}

// demandsOf are the demands of a run as this store counts them.
func (s *Store) demandsOf(r *run) []store.LimitUse {
	uses := r.demands()
	for i := range uses {
		step := slices.ContainsFunc(r.StepUnder, func(u store.LimitUse) bool { return u.Limit == uses[i].Limit })
		switch {
		case s.breaks == LimitStepTokensFree && step:
			uses[i].Tokens = 0
		case s.breaks == LimitTokensAgain && !step:
			uses[i].Tokens = max(1, uses[i].Tokens)
		case s.breaks == LimitTokensOnce && !step && !r.StartedAt.IsZero():
			uses[i].Tokens = 0
		}
	}
	return uses
}

// waits reports whether limits decide when the run is claimed. They do not for a lease that expired.
func (r *run) waits() bool { return len(r.Under)+len(r.StepUnder) > 0 && !r.leased() }

// full reports whether the concurrency of a limit does not permit the run (P21).
func (s *Store) full(r *run) bool {
	uses := r.demands()
	if s.breaks == LimitIgnoresSteps {
		uses = slices.Clone(r.Under)
	}
	if s.breaks == LimitFirstOnly {
		uses = uses[:min(1, len(uses))]
	}
	full := func(u store.LimitUse) bool {
		most := s.rule(r.Namespace, u.Limit).Concurrency
		if s.breaks == LimitOneMore && most > 0 {
			most++
		}
		return most > 0 && s.counted[s.countKey(r, u)] >= most && !(s.breaks == LimitIgnoresKeys && u.Key == "")
	}
	if s.breaks == LimitAnyOf {
		return !slices.ContainsFunc(uses, func(u store.LimitUse) bool { return !full(u) })
	}
	return slices.ContainsFunc(uses, full)
}

// rated returns when the rates permit the run: now, or a later time (P22).
func (s *Store) rated(r *run, now time.Time) time.Time {
	at := now.UnixMicro()
	for _, u := range s.demandsOf(r) {
		rule := s.rule(r.Namespace, u.Limit)
		if every := rule.Every(); every > 0 && u.Tokens > 0 && s.breaks != LimitIgnoresRate {
			k := s.key(r.Namespace, u.Limit, u.Key)
			n, most := u.Tokens, rule.Most()
			switch s.breaks {
			case LimitBigStarves:
				most = cmp.Or(rule.Burst, rule.Tokens)
				if n > most {
					return now.Add(time.Hour)
				}
			case LimitBurstIsTokens:
				most = rule.Tokens
			case LimitBurstTwice:
				if edge := now.Truncate(rule.Per); k.tat < edge.UnixMicro()+most*every && s.edges[limitKey{r.Namespace, u.Limit, u.Key}] != edge {
					continue // the window is new
				}
			case LimitOneToken:
				n = 1
			}
			at = max(at, k.tat+(min(n, most)-most)*every)
		}
	}
	return time.UnixMicro(at).UTC()
}

// permitted reports whether the limits of a run that is due permit it now.
func (s *Store) permitted(r *run, now time.Time) bool {
	if s.breaks == LimitTakeoverWaits && r.leased() && s.full(r) {
		return false
	}
	return !r.waits() || !s.full(r) && !s.rated(r, now).After(now)
}

// turn returns the fair limit in which the run's key takes turns: the first one by name.
func (s *Store) turn(r *run) (store.LimitUse, bool) {
	for _, u := range s.demandsOf(r) {
		if r.waits() && s.rule(r.Namespace, u.Limit).Fair && s.breaks != LimitUnfair {
			return u, true
		}
	}
	return store.LimitUse{}, false
}

// start returns the virtual time at which the next claim of a key begins.
func (s *Store) start(namespace string, u store.LimitUse) int64 {
	if s.breaks == LimitCredit {
		return s.key(namespace, u.Limit, u.Key).vtime
	}
	return max(s.key(namespace, u.Limit, u.Key).vtime, s.turns[name{namespace, u.Limit}])
}

// charge takes the tokens of a run that is claimed, and gives its key its turn.
func (s *Store) charge(r *run, now time.Time) {
	if !r.waits() {
		return
	}
	if u, fair := s.turn(r); fair {
		start, k := s.start(r.Namespace, u), s.key(r.Namespace, u.Limit, u.Key)
		s.turns[name{r.Namespace, u.Limit}] = start
		weight := max(1, k.weight)
		if s.breaks == LimitNoWeights {
			weight = 1
		}
		k.vtime = start + 1_000_000*max(1, u.Tokens)/weight
	}
	for _, u := range s.demandsOf(r) {
		if every := s.rule(r.Namespace, u.Limit).Every(); every > 0 && u.Tokens > 0 {
			k := s.key(r.Namespace, u.Limit, u.Key)
			n := u.Tokens
			switch s.breaks {
			case LimitOneToken:
				n = 1
			case LimitBigIsCheap:
				n = min(n, s.rule(r.Namespace, u.Limit).Most())
			case LimitBurstTwice:
				s.edges[limitKey{r.Namespace, u.Limit, u.Key}] = now.Truncate(s.rule(r.Namespace, u.Limit).Per)
			case LimitSavesUp:
				k.tat += n * every
				if k.tat < now.Add(-time.Hour).UnixMicro() {
					k.tat = now.Add(-time.Hour).UnixMicro()
				}
				continue
			}
			k.tat = max(k.tat, now.UnixMicro()) + n*every
		}
	}
}

// next returns the run that a claim takes next, of those that are due; nil if there is none. It is the
// definition of P7 with limits.
func (s *Store) next(due []*run, now time.Time) *run {
	var best *run
	turns := map[string]*run{} // the first run of each fair limit
	for _, r := range due {    // in the order of P7
		if !s.permitted(r, now) {
			if s.breaks == LimitBlocksOthers {
				break
			}
			continue
		}
		u, fair := s.turn(r)
		if !fair {
			if best == nil {
				best = r
			}
			continue
		}
		other := turns[u.Limit]
		if other == nil {
			turns[u.Limit] = r
			continue
		}
		v, _ := s.turn(other)
		if cmp.Or(cmp.Compare(s.start(r.Namespace, u), s.start(r.Namespace, v)), cmp.Compare(u.Key, v.Key)) < 0 {
			turns[u.Limit] = r
		}
	}
	for _, r := range turns {
		if best == nil || before(r, best) < 0 {
			best = r
		}
	}
	return best
}

// hintFreed sends the hint of a write that has ended permits of the run.
func (s *Store) hintFreed(r *run) {
	s.hint(store.Hint{Kind: store.HintQueue, Namespace: r.Namespace, Queue: r.Queue})
}

// checkUnder refuses a transition whose step would be under a limit of the run.
func (r *run) checkUnder(t *store.Transition) error {
	if t == nil || len(t.Under) == 0 {
		return nil
	}
	return store.CheckUses(r.Under, t.Under)
}

func (s *Store) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	changed := false
	for _, in := range p.Limits {
		l := s.rules[name{p.Namespace, in.Name}]
		if l == nil {
			l = &limit{}
			s.rules[name{p.Namespace, in.Name}] = l
		}
		if !l.code || l.rule != in.Rule {
			l.code, l.rule, l.updated, changed = true, in.Rule, clock(p.Now), true
		}
	}
	if changed {
		s.hint(store.Hint{Kind: store.HintRescan})
	}
	return nil
}

func (s *Store) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	id := name{p.Namespace, p.Name}
	l := s.rules[id]
	switch {
	case l == nil && p.Rule == nil:
		return fmt.Errorf("limit %q: %w", p.Name, store.ErrNotFound)
	case l == nil:
		l = &limit{}
		s.rules[id] = l
	case p.Rule == nil && l.set == nil, p.Rule != nil && l.set != nil && *p.Rule == *l.set:
		s.note(p.Namespace, p.Record, 0, false, clock(p.Now))
		return nil
	}
	s.note(p.Namespace, p.Record, 0, true, clock(p.Now))
	l.set, l.updated = nil, clock(p.Now)
	s.turnAnew(id)
	if p.Rule != nil {
		rule := *p.Rule
		l.set = &rule
	} else if !l.code {
		delete(s.rules, id)
	}
	s.hint(store.Hint{Kind: store.HintRescan})
	return nil
}

func (s *Store) ListLimits(ctx context.Context, p store.ListLimitsParams) (store.LimitPage, error) {
	after, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.LimitPage{}, err
	}
	defer s.mu.Unlock()
	var page store.LimitPage
	for id, l := range s.rules {
		if id.namespace != p.Namespace || !oneOf(p.Names, id.name) || id.name <= after {
			continue
		}
		row := store.Limit{Name: id.name, Rule: l.rule, UpdatedAt: l.updated}
		if l.set != nil {
			set := *l.set
			row.Set = &set
		}
		page.Limits = append(page.Limits, row)
	}
	slices.SortFunc(page.Limits, func(a, b store.Limit) int { return cmp.Compare(a.Name, b.Name) })
	if most, _ := store.Page(p.Limit); len(page.Limits) > most {
		page.Limits = page.Limits[:most]
		page.Next = p.NextCursor(page.Limits[most-1].Name)
	}
	return page, nil
}

func (s *Store) LimitKeys(ctx context.Context, p store.LimitKeysParams) (store.LimitKeyPage, error) {
	after, begun, err := p.Position()
	if err := s.look(ctx, cmp.Or(p.Validate(), err)); err != nil {
		return store.LimitKeyPage{}, err
	}
	defer s.mu.Unlock()
	rows := s.keyRows(p.Namespace, p.Limit, clock(p.Now))
	var page store.LimitKeyPage
	for _, k := range rows {
		if (p.Key == nil || *p.Key == k.Key) && (!begun || k.Key > after) {
			page.Keys = append(page.Keys, k)
		}
	}
	slices.SortFunc(page.Keys, func(a, b store.LimitKey) int { return strings.Compare(a.Key, b.Key) })
	if most, _ := store.Page(p.Rows); len(page.Keys) > most {
		page.Keys = page.Keys[:most]
		page.Next = p.NextCursor(page.Keys[most-1].Key)
	}
	return page, nil
}

// keyRows returns the keys of a limit of which there is something to tell.
func (s *Store) keyRows(namespace, limit string, now time.Time) map[string]store.LimitKey {
	rows := map[string]store.LimitKey{}
	edit := func(key string, do func(k *store.LimitKey)) {
		k := rows[key]
		k.Key, k.Weight = key, max(1, s.key(namespace, limit, key).weight)
		do(&k)
		rows[key] = k
	}
	for _, r := range s.live {
		for _, u := range slices.Concat(r.Under, r.StepUnder) {
			switch {
			case r.Namespace != namespace || u.Limit != limit:
			case r.leased():
				edit(u.Key, func(k *store.LimitKey) { k.Held++ })
			case r.Status != store.Paused && !r.VisibleAt.IsZero() && !r.VisibleAt.After(now):
				edit(u.Key, func(k *store.LimitKey) {
					k.Waiting, k.Since = min(store.MaxWaiting, k.Waiting+1), earliest(k.Since, r.VisibleAt)
				})
			}
		}
	}
	for id, n := range s.leaked {
		if n != 0 && id.namespace == namespace && id.limit == limit {
			edit(id.key, func(k *store.LimitKey) { k.Held += n })
		}
	}
	rule := s.rule(namespace, limit)
	for id, state := range s.keys {
		if id.namespace != namespace || id.limit != limit {
			continue
		}
		if state.weight > 1 && s.breaks != LimitForgetsWeight {
			edit(id.key, func(*store.LimitKey) {})
		}
		if every := rule.Every(); every > 0 {
			if at := state.tat - (rule.Most()-1)*every; at > now.UnixMicro() {
				edit(id.key, func(k *store.LimitKey) { k.RateAt = time.UnixMicro(at).UTC() })
			}
		}
	}
	return rows
}

func (s *Store) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	if err := s.enter(ctx, p.Validate()); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.key(p.Namespace, p.Limit, p.Key).weight = p.Weight
	s.note(p.Namespace, p.Record, 0, true, clock(p.Now))
	return nil
}
