package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	// readLimits: $1 namespace, $2 names.
	readLimits = `SELECT l.name, l.rule, l.own_rule, l.updated_at FROM pawl.limits l WHERE l.namespace=$1::text AND l.name=ANY($2::text[])`
	// writeLimit: $1 now, $2 namespace, $3 name, $4 and $5 the rules, $6 to $9 the rule in force.
	writeLimit = `INSERT INTO pawl.limits AS l (namespace, name, rule, own_rule, concurrency, every, burst, fair, updated_at)
		VALUES ($2::text, $3::text, $4::text, $5::text, $6::bigint, $7::bigint, $8::bigint, $9::bool, ` + now + `)
		ON CONFLICT (namespace, name) DO UPDATE SET rule=excluded.rule, own_rule=excluded.own_rule, concurrency=excluded.concurrency, every=excluded.every, burst=excluded.burst,
			fair=excluded.fair, updated_at=excluded.updated_at`
	// dropLimit: $1 namespace, $2 name.
	dropLimit = `DELETE FROM pawl.limits l WHERE l.namespace=$1::text AND l.name=$2::text`
	// wakeFlows lets claims look at all flows under some limits ($3) again, and finds out which limit
	// decides on their turns: $1 now, $2 namespace.
	wakeFlows = `UPDATE pawl.limit_flows f SET state=CASE WHEN f.head_at<=` + now + ` THEN 1 ELSE 3 END, at=f.head_at,
			limit_name=CASE WHEN f.head_at<=` + now + ` THEN f.limit_name END, limit_key=CASE WHEN f.head_at<=` + now + ` THEN f.limit_key END,
			fair=coalesce(u.fair, ''), turn=CASE WHEN u.fair IS NULL THEN 0 ELSE greatest(u.clock, (SELECT k.vtime FROM pawl.limit_keys k
				WHERE k.namespace=$2::text AND k.name=u.fair AND k.key=u.fair_key)) END
		FROM pawl.limit_flows o CROSS JOIN LATERAL (SELECT ` + fairOf(`e.key`) + ` FROM unnest(o.names, o.keys) e(name, key)
			LEFT JOIN pawl.limits l ON l.namespace=$2::text AND l.name=e.name AND l.fair) u
		WHERE o.namespace=$2::text AND o.names && $3::text[] AND f.flow=o.flow AND f.pin=o.pin`

	// setWeight: $1 namespace, $2 limit, $3 key, $4 weight.
	setWeight = `INSERT INTO pawl.limit_keys AS k (namespace, name, key, weight) VALUES ($1::text, $2::text, $3::text, $4::bigint)
		ON CONFLICT (namespace, name, key) DO UPDATE SET weight=excluded.weight`

	// listLimits: $1 namespace, $2 whether all, $3 names, $4 the last name seen, $5 the number.
	listLimits = `SELECT l.name, l.rule, l.own_rule, l.updated_at FROM pawl.limits l
		WHERE l.namespace=$1::text AND l.name>$4::text AND ($2::bool OR l.name=ANY($3::text[])) ORDER BY l.name LIMIT $5::bigint`

	// listKeys: $1 now, $2 namespace, $3 limit, $4 a key or NULL, $5 the last key seen or NULL, $6 the
	// number, $7 up to which waiting runs count. It returns keys without any run, which do not count.
	listKeys = sqlkit.Text(`WITH k AS MATERIALIZED (SELECT k.key, k.held, k.tat, k.weight FROM pawl.limit_keys k
			WHERE k.namespace=$2::text AND k.name=$3::text AND ($4::text IS NULL OR k.key=$4::text) AND ($5::text IS NULL OR k.key>$5::text)),
		f AS MATERIALIZED (SELECT u.key, f.flow, f.pin, f.head_at FROM pawl.limit_flows f CROSS JOIN LATERAL unnest(f.names, f.keys) u(name, key)
			WHERE f.namespace=$2::text AND f.names @> ARRAY[$3::text] AND u.name=$3::text AND ($4::text IS NULL OR u.key=$4::text) AND ($5::text IS NULL OR u.key>$5::text)),
		page AS MATERIALIZED (SELECT p.key FROM (SELECT k.key FROM k WHERE k.held>0 OR k.weight<>1 OR k.tat>` + now + ` UNION SELECT f.key FROM f WHERE f.head_at<=` + now + `) p
			ORDER BY 1 LIMIT $6::bigint)
		SELECT page.key, coalesce(k.held, 0), coalesce(k.tat, 0), coalesce(k.weight, 1), least(coalesce(w.n, 0), $7::bigint)::bigint, w.since,
			coalesce(l.every, 0), coalesce(l.burst, 0), ` + now + `
		FROM page LEFT JOIN k ON k.key=page.key LEFT JOIN pawl.limits l ON l.namespace=$2::text AND l.name=$3::text
		LEFT JOIN LATERAL (SELECT sum(c.n) AS n, min(c.since) AS since FROM f CROSS JOIN LATERAL (SELECT count(*) AS n, min(y.visible_at) AS since FROM (
				SELECT x.visible_at FROM pawl.runs x WHERE ` + flowRuns + ` AND x.visible_at<=` + now + ` ORDER BY x.visible_at, x.id LIMIT $7::bigint) y) c WHERE f.key=page.key) w ON true
		ORDER BY page.key`)
)

// oneLimit is a limit as its row has it.
type oneLimit struct {
	store.Limit
	registered bool
}

func scanLimit(scan func(...any) error) (l oneLimit, err error) {
	var rule, set *string
	if err := scan(&l.Name, &rule, &set, sqlkit.Time(&l.UpdatedAt)); err != nil {
		return l, err
	}
	if rule != nil {
		l.registered = true
		err = json.Unmarshal([]byte(*rule), &l.Rule)
	}
	if err == nil && set != nil {
		err = json.Unmarshal([]byte(*set), &l.Set)
	}
	return l, err
}

// row returns the statement that writes a limit, or deletes it if it has no rule.
func (l *oneLimit) row(namespace string, now time.Time) stmt {
	if !l.registered && l.Set == nil {
		return stmt{sql: dropLimit, args: []any{namespace, l.Name}}
	}
	var rule, set *string
	if l.registered {
		rule = text(sqlkit.JSON(l.Rule))
	}
	if l.Set != nil {
		set = text(sqlkit.JSON(l.Set))
	}
	e := l.Effective()
	return stmt{sql: writeLimit, args: []any{setNow(now), namespace, l.Name, rule, set, e.Concurrency, e.Every(), e.Most(), e.Fair}}
}

// lockLimits is the statement that begins a transaction that writes limits, keys or flows.
func (s *Store) lockLimits(namespace string) stmt {
	sql := limitLockSoon
	if s.in != nil { // the program's transaction keeps its settings
		sql = limitLock
	}
	return stmt{sql: sql, args: []any{namespace}, rows: ignore}
}

// changeLimits changes limits. change returns whether it has changed one.
func (s *Store) changeLimits(ctx context.Context, namespace string, now time.Time, names []string, record []store.Action, change func(*oneLimit) (bool, error)) error {
	var changed []string
	if err := s.ensureSpace(ctx, namespace, true); err != nil {
		return err
	}
	err := s.rounds(ctx, func(run func(bool, ...stmt) error) error {
		changed = nil
		found := map[string]*oneLimit{}
		err := run(false, s.lockLimits(namespace), stmt{sql: readLimits, args: []any{namespace, names}, rows: func(scan func(...any) error) error {
			l, err := scanLimit(scan)
			found[l.Name] = &l
			return err
		}})
		if err != nil {
			return err
		}
		var stmts []stmt
		for _, name := range names {
			l := found[name]
			if l == nil {
				l = &oneLimit{Limit: store.Limit{Name: name}}
			}
			did, err := change(l)
			if err != nil {
				return &refused{err}
			}
			if did {
				changed = append(changed, name)
				stmts = append(stmts, l.row(namespace, now))
			}
		}
		if len(changed) > 0 {
			stmts = append(stmts, stmt{sql: wakeFlows, args: []any{setNow(now), namespace, changed}})
		}
		outcome := store.NoChange
		if len(changed) > 0 {
			outcome = store.Done
		}
		stmts = append(stmts, own(s.journal(namespace, now, record).As(outcome))...)
		return run(true, stmts...)
	})
	if err == nil && len(changed) > 0 {
		s.publish(rescan)
	}
	return err
}

// PutLimits implements store.Limiter.
func (s *Store) PutLimits(ctx context.Context, p store.PutLimitsParams) error {
	if err := p.Validate(); err != nil || len(p.Limits) == 0 {
		return err
	}
	rules := map[string]store.LimitRule{}
	var names []string
	for _, l := range p.Limits {
		rules[l.Name] = l.Rule
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return s.changeLimits(ctx, p.Namespace, p.Now, names, nil, func(l *oneLimit) (bool, error) {
		if l.registered && l.Rule == rules[l.Name] {
			return false, nil
		}
		l.registered, l.Rule = true, rules[l.Name]
		return true, nil
	})
}

// SetLimit implements store.Limiter.
func (s *Store) SetLimit(ctx context.Context, p store.SetLimitParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return s.changeLimits(ctx, p.Namespace, p.Now, []string{p.Name}, p.Record, func(l *oneLimit) (bool, error) {
		switch {
		case p.Rule == nil && !l.registered && l.Set == nil:
			return false, sqlkit.NotFound("limit %q", p.Name)
		case p.Rule == nil && l.Set == nil, p.Rule != nil && l.Set != nil && *l.Set == *p.Rule:
			return false, nil
		}
		l.Set = p.Rule
		return true, nil
	})
}

// SetWeight implements store.Limiter.
func (s *Store) SetWeight(ctx context.Context, p store.SetWeightParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	stmts := []stmt{s.lockLimits(p.Namespace), {sql: setWeight, args: []any{p.Namespace, p.Limit, p.Key, p.Weight}}}
	return s.write(ctx, append(stmts, own(s.journal(p.Namespace, p.Now, p.Record).As(store.Done))...)...)
}

// ListLimits implements store.Limiter.
func (s *Store) ListLimits(ctx context.Context, p store.ListLimitsParams) (page store.LimitPage, err error) {
	limit, after, err := sqlkit.Begin(&p, p.Limit)
	if err != nil {
		return page, err
	}
	err = s.read(ctx, stmt{sql: listLimits, args: []any{p.Namespace, len(p.Names) == 0, p.Names, after, int64(limit + 1)}, rows: func(scan func(...any) error) error {
		l, err := scanLimit(scan)
		page.Limits = append(page.Limits, l.Limit)
		return err
	}})
	if err != nil {
		return store.LimitPage{}, err
	}
	if last := sqlkit.Cut(&page.Limits, limit); last != nil {
		page.Next = p.NextCursor(last.Name)
	}
	return page, nil
}

// LimitKeys implements store.Limiter. It first folds all marks, so that what it reads is exact. With many
// marks that takes several transactions: what one has folded stays folded if the caller gives up.
func (s *Store) LimitKeys(ctx context.Context, p store.LimitKeysParams) (page store.LimitKeyPage, err error) {
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, err := store.Page(p.Rows)
	if err != nil {
		return page, err
	}
	after, some, err := p.Position()
	if err != nil {
		return page, err
	}
	var last *string
	if some {
		last = &after
	}
	var keys []store.LimitKey
	args := []any{setNow(p.Now), p.Namespace, p.Limit, p.Key, last, int64(limit + 1), int64(store.MaxWaiting)}
	for more := true; more; {
		err = s.rounds(ctx, func(run func(bool, ...stmt) error) (err error) {
			keys = nil
			if more, err = s.foldSome(p.Namespace, setNow(p.Now), run); err != nil {
				return err
			}
			if more {
				return run(true)
			}
			return run(true, stmt{sql: listKeys, args: args, rows: func(scan func(...any) error) error {
				k, err := scanKey(scan)
				keys = append(keys, k)
				return err
			}})
		})
		if err != nil {
			return page, err
		}
	}
	if cut := sqlkit.Cut(&keys, limit); cut != nil {
		page.Next = p.NextCursor(cut.Key)
	}
	page.Keys = slices.DeleteFunc(keys, func(k store.LimitKey) bool {
		return k.Held == 0 && k.Waiting == 0 && k.Weight == 1 && k.RateAt.IsZero()
	})
	return page, nil
}

// foldsAtOnce is how many times maxMarks a transaction folds.
const foldsAtOnce = 20

// foldSome folds marks in a transaction, at most foldsAtOnce times. more reports that there may be others.
func (s *Store) foldSome(namespace string, now any, run func(bool, ...stmt) error) (more bool, err error) {
	folded, freed := int64(maxMarks), false
	stmts := []stmt{s.lockLimits(namespace)}
	for round := 0; folded >= maxMarks; round++ {
		if round == foldsAtOnce {
			return true, nil
		}
		at := stmt{sql: unpark, args: []any{now, namespace, []string{}, []string{}}, rows: ignore}
		if err := run(false, append(stmts, foldOf(now, namespace, 0, &freed, &folded), at)...); err != nil {
			return false, err
		}
		stmts = nil
	}
	return false, nil
}

func scanKey(scan func(...any) error) (k store.LimitKey, err error) {
	var tat, every, burst, now int64
	err = scan(&k.Key, &k.Held, &tat, &k.Weight, &k.Waiting, sqlkit.Time(&k.Since), &every, &burst, &now)
	if at := tat - (burst-1)*every; every > 0 && at > now {
		k.RateAt = time.UnixMicro(at).UTC()
	}
	return k, err
}

// refused is an error by which a call refuses its input: it says nothing about the connection.
type refused struct{ error }

func (e *refused) Unwrap() error { return e.error }
