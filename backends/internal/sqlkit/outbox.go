package sqlkit

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// standing are the columns of a subscription, n, and what waits in it.
var standing = fmt.Sprintf(`n.name, n.workflows, n.kinds, n.keep, n.updated_at, n.created_at, n.delivered_at, n.failed_at, n.error, n.dropped,
	(SELECT count(*) FROM (SELECT 1 FROM pawl.changes w WHERE w.namespace=n.namespace AND w.subscription=n.name LIMIT %d) ws),
	(SELECT w.at FROM pawl.changes w WHERE w.namespace=n.namespace AND w.subscription=n.name ORDER BY w.seq LIMIT 1),
	coalesce((SELECT w.attempts FROM pawl.changes w WHERE w.namespace=n.namespace AND w.subscription=n.name ORDER BY w.seq LIMIT 1), 0)`, store.MaxWaitingChanges)

var (
	putSubscription = newRecorded("put subscription", fmt.Sprintf(`INSERT INTO pawl.subscriptions (namespace, name, workflows, kinds, keep, updated_at, created_at)
		SELECT :namespace, :name, :workflows, :kinds, :keep, :now, :now
		WHERE (SELECT count(*) FROM pawl.subscriptions n WHERE n.namespace=:namespace AND n.name<>:name)<%d OR EXISTS (SELECT 1 FROM pawl.subscriptions n WHERE n.namespace=:namespace AND n.name=:name)
		ON CONFLICT (namespace, name) DO UPDATE SET workflows=excluded.workflows, kinds=excluded.kinds, keep=excluded.keep, updated_at=excluded.updated_at`, store.MaxSubscriptions), false)
	// PostgreSQL has no triggers that tell of changes before the first subscription: a call of one costs more than what it does.
	watchRuns = newQuery("watch runs", [dialects]string{PostgreSQL: `SELECT pawl.watch_runs()`, SQLite: `SELECT 1`})

	oneSubscription  = NewQuery("one subscription", `SELECT `+standing+` FROM pawl.subscriptions n WHERE n.namespace=:namespace AND n.name=:name`)
	allSubscriptions = NewQuery("subscriptions", `SELECT `+standing+` FROM pawl.subscriptions n WHERE n.namespace=:namespace ORDER BY n.name`)
)

// scanSubscription reads the columns of standing.
func scanSubscription(scan Scan, s *store.Subscription) error {
	var kinds, keep int64
	err := scan(&s.Name, FromJSON(&s.Workflows), &kinds, &keep, Time(&s.UpdatedAt), Time(&s.CreatedAt), Time(&s.DeliveredAt), Time(&s.FailedAt), &s.Error, &s.Dropped,
		&s.Waiting, Time(&s.OldestAt), &s.Attempts)
	s.Keep = time.Duration(keep) * time.Microsecond
	for _, k := range store.ChangeKinds() {
		if kinds&(1<<k) != 0 {
			s.Kinds = append(s.Kinds, k)
		}
	}
	if len(s.Workflows) == 0 {
		s.Workflows = nil
	}
	return err
}

// PutSubscription implements store.Outboxer.
func (v Verbs) PutSubscription(ctx context.Context, p store.PutSubscriptionParams) (store.Subscription, error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return store.Subscription{}, err
	}
	rule, kinds := p.Rule(), int64(0)
	for _, k := range rule.Kinds {
		kinds |= 1 << k
	}
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"name", rule.Name}, {"workflows", JSON(append([]string{}, rule.Workflows...))}, {"kinds", kinds}, {"keep", Span(rule.Keep)}}
	var out store.Subscription
	var put int64
	stmts := append(putSubscription.stmts(v.db, args, p.Record, &put), oneSubscription.stmt(v.db, args, func(scan Scan) error {
		out = store.Subscription{}
		return scanSubscription(scan, &out)
	}))
	if v.db.Dialect() == PostgreSQL {
		var created bool
		stmts = append([]Stmt{watchRuns.stmt(v.db, args, One(&created))}, stmts...)
	}
	err = v.db.Write(ctx, stmts...)
	if err == nil && put == 0 {
		err = store.TooManySubscriptions(rule.Name)
	}
	return out, err
}

// ListSubscriptions implements store.Outboxer.
func (v Verbs) ListSubscriptions(ctx context.Context, p store.ListSubscriptionsParams) ([]store.Subscription, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var list []store.Subscription
	err := v.read(ctx, allSubscriptions, Args{{"namespace", p.Namespace}}, func(scan Scan) error {
		var s store.Subscription
		err := scanSubscription(scan, &s)
		list = append(list, s)
		return err
	})
	return list, err
}

var (
	dropSubscription = newRecorded("drop subscription", `DELETE FROM pawl.subscriptions WHERE namespace=:namespace AND name=:name`, false)
	dropSome         = newQuery("drop changes of one", [dialects]string{
		PostgreSQL: `DELETE FROM pawl.changes WHERE namespace=:namespace AND subscription=:name AND seq=ANY(ARRAY(SELECT w.seq FROM pawl.changes w
			WHERE w.namespace=:namespace AND w.subscription=:name ORDER BY w.seq LIMIT :limit))`,
		SQLite: `DELETE FROM changes WHERE seq IN (SELECT w.seq FROM changes w WHERE w.namespace=:namespace AND w.subscription=:name ORDER BY w.seq LIMIT :limit)`,
	})
	someLeft = NewQuery("changes of one", `SELECT EXISTS (SELECT 1 FROM pawl.changes w WHERE w.namespace=:namespace AND w.subscription=:name)`)
)

// DeleteSubscription implements store.Outboxer.
func (v Verbs) DeleteSubscription(ctx context.Context, p store.DeleteSubscriptionParams) (more bool, err error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return false, err
	}
	args := Args{{"namespace", p.Namespace}, {"name", p.Name}, {"now", now}, {"limit", int64(store.MaxBatch)}}
	var dropped, changes int64
	some := dropSome.stmt(v.db, args, nil)
	some.Affected = &changes
	err = v.db.Write(ctx, append(dropSubscription.stmts(v.db, args, p.Record, &dropped), some, someLeft.stmt(v.db, args, One(&more)))...)
	if err == nil && dropped+changes == 0 {
		err = NotFound("subscription %q", p.Name)
	}
	return more && err == nil, err
}

var (
	hasSubscription = NewQuery("find subscription", `SELECT 1 FROM pawl.subscriptions n WHERE n.namespace=:namespace AND n.name=:name`)
	// Whether a change is the first one of its run is looked up for each one that is due, so that the read ends with the page.
	dueChanges = NewQuery("due changes", `SELECT w.seq, w.id, w.kind, w.run_id, w.workflow, w.queue, w.external_id, w.suffix, w.at, w.attempts FROM pawl.changes w
		WHERE w.namespace=:namespace AND w.subscription=:name AND w.due_at<=:now
			AND w.seq=(SELECT v.seq FROM pawl.changes v WHERE v.run_id=w.run_id AND v.subscription=w.subscription AND v.namespace=w.namespace ORDER BY v.seq LIMIT 1)
		ORDER BY w.due_at, w.seq LIMIT :limit+1`)
	nextChange = NewQuery("next change", `SELECT (SELECT min(w.due_at) FROM pawl.changes w WHERE w.namespace=:namespace AND w.subscription=:name AND w.due_at>:now), :now`)
)

// Changes implements store.Outboxer.
func (v Verbs) Changes(ctx context.Context, p store.ChangesParams) (store.ChangePage, error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return store.ChangePage{}, err
	}
	limit, _ := store.Page(p.Limit)
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"name", p.Subscription}, {"limit", int64(limit)}}
	var page store.ChangePage
	found := false
	err = v.db.Read(ctx,
		hasSubscription.stmt(v.db, args, func(Scan) error { found = true; return nil }),
		dueChanges.stmt(v.db, args, func(scan Scan) error {
			var ch store.Change
			err := scan(&ch.Seq, ID(&ch.ID), &ch.Kind, ID(&ch.Run), &ch.Workflow, &ch.Queue, TextOrNull(&ch.ExternalID), &ch.Suffix, Time(&ch.At), &ch.Attempts)
			page.Changes = append(page.Changes, ch)
			return err
		}),
		nextChange.stmt(v.db, args, One(Time(&page.NextAt), Time(&page.Now))))
	switch {
	case err != nil:
		return store.ChangePage{}, err
	case !found:
		return store.ChangePage{}, NotFound("subscription %q", p.Subscription)
	}
	page.More = Cut(&page.Changes, limit) != nil
	return page, nil
}

// dueBefore is when the changes of a run that wait before a change are due.
func dueBefore(change string) string {
	return `(SELECT max(z.due_at) FROM pawl.changes z WHERE z.run_id=` + change + `.run_id AND z.subscription=` + change + `.subscription AND z.namespace=` + change + `.namespace AND z.seq<` + change + `.seq)`
}

// settled are the changes of a call that wait: the number, the attempt and the delay of each.
var settled = [dialects]string{
	PostgreSQL: `(SELECT w.seq, w.run_id, CAST(v->>2 AS bigint) AS attempt, CAST(v->>3 AS bigint) AS after FROM json_array_elements(CAST(:settled AS json)) v
		CROSS JOIN LATERAL (SELECT y.seq, y.run_id FROM pawl.changes y WHERE y.namespace=:namespace AND y.subscription=:name AND y.seq=CAST(v->>0 AS bigint) AND y.id=CAST(v->>1 AS uuid) OFFSET 0) w)`,
	SQLite: `(SELECT w.seq, w.run_id, v.value->>2 AS attempt, v.value->>3 AS after FROM json_each(:settled) v
		CROSS JOIN changes w ON w.seq=v.value->>0 WHERE w.id=unhex(v.value->>1) AND w.namespace=:namespace AND w.subscription=:name)`,
}

var (
	deliverChanges = newQuery("deliver changes", [dialects]string{
		PostgreSQL: `DELETE FROM pawl.changes WHERE namespace=:namespace AND subscription=:name AND seq=ANY(ARRAY(SELECT t.seq FROM ` + settled[PostgreSQL] + ` t))`,
		SQLite:     `DELETE FROM changes WHERE seq IN (SELECT t.seq FROM ` + settled[SQLite] + ` t)`,
	})
	failChanges = newQuery("fail changes", [dialects]string{
		PostgreSQL: `WITH t AS MATERIALIZED ` + settled[PostgreSQL] + ` UPDATE pawl.changes d SET attempts=t.attempt, due_at=:now+t.after FROM t
			WHERE d.namespace=:namespace AND d.subscription=:name AND d.seq=ANY(ARRAY(SELECT t.seq FROM t)) AND d.seq=t.seq AND d.attempts<t.attempt`,
		SQLite: `UPDATE changes SET attempts=t.attempt, due_at=:now+t.after FROM ` + settled[SQLite] + ` t WHERE changes.seq=t.seq AND changes.attempts<t.attempt`,
	})
	// What waits behind a failed delivery is due with it. A change that is stored meanwhile may miss this; it costs a lookup when
	// changes are read.
	delayChanges = newQuery("delay changes", [dialects]string{
		PostgreSQL: `UPDATE pawl.changes d SET due_at=` + dueBefore("d") + ` WHERE d.namespace=:namespace AND d.subscription=:name AND d.seq=ANY(ARRAY(
			SELECT w.seq FROM ` + settled[PostgreSQL] + ` t CROSS JOIN LATERAL (SELECT y.seq FROM pawl.changes y
				WHERE y.run_id=t.run_id AND y.subscription=:name AND y.namespace=:namespace AND y.seq>t.seq AND y.due_at<` + dueBefore("y") + ` OFFSET 0) w))`,
		SQLite: `UPDATE changes SET due_at=` + dueBefore("changes") + ` WHERE seq IN (
			SELECT w.seq FROM ` + settled[SQLite] + ` t CROSS JOIN changes w ON w.run_id=t.run_id AND w.subscription=:name
			WHERE w.namespace=:namespace AND w.seq>t.seq AND w.due_at<` + dueBefore("w") + `)`,
	})
	noteSettled = NewQuery("note settled", `UPDATE pawl.subscriptions SET delivered_at=CASE WHEN :delivered THEN :now ELSE delivered_at END,
		failed_at=CASE WHEN :failed THEN :now ELSE failed_at END, error=CASE WHEN :failed THEN :error ELSE error END WHERE namespace=:namespace AND name=:name`)
)

// Settle implements store.Outboxer.
func (v Verbs) Settle(ctx context.Context, p store.SettleParams) error {
	now, late, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil || len(p.Delivered)+len(p.Failed) == 0 {
		return err
	}
	row := func(k store.ChangeKey, attempt int, after int64) [4]any {
		return [4]any{k.Seq, hex.EncodeToString(k.ID[:]), attempt, after}
	}
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"name", p.Subscription}, {"delivered", len(p.Delivered) > 0}, {"failed", len(p.Failed) > 0}, {"error", p.Error}}
	var delivered, failed [][4]any
	for _, k := range p.Delivered {
		delivered = append(delivered, row(k, 0, 0))
	}
	for _, f := range p.Failed {
		failed = append(failed, row(f.ChangeKey, f.Attempt, Span(f.After)))
	}
	var stmts []Stmt
	if len(failed) > 0 {
		later := append(Args{{"now", late}, {"settled", JSON(failed)}}, args[1:]...)
		stmts = append(stmts, failChanges.stmt(v.db, later, nil), delayChanges.stmt(v.db, later, nil))
	}
	if len(delivered) > 0 {
		stmts = append(stmts, deliverChanges.stmt(v.db, append(args, Arg{"settled", JSON(delivered)}), nil))
	}
	return v.db.Write(ctx, append(stmts, noteSettled.stmt(v.db, args, nil))...)
}

var (
	// It jumps from one name to the next.
	waitingIn = NewQuery("subscriptions with changes", `WITH RECURSIVE t(name) AS (
			SELECT (SELECT min(w.subscription) FROM pawl.changes w WHERE w.namespace=:namespace)
			UNION ALL SELECT (SELECT min(w.subscription) FROM pawl.changes w WHERE w.namespace=:namespace AND w.subscription>t.name) FROM t WHERE t.name IS NOT NULL)
		SELECT t.name FROM t WHERE t.name IS NOT NULL`)
	// The times of the oldest ones by number are looked at: those of later ones are hardly ever earlier.
	oldChanges = `SELECT t.seq FROM (SELECT w.seq, w.at FROM pawl.changes w WHERE w.namespace=:namespace AND w.subscription=:name ORDER BY w.seq LIMIT :limit) t
		LEFT JOIN pawl.subscriptions n ON n.namespace=:namespace AND n.name=:name WHERE n.name IS NULL OR t.at<=:now-n.keep`
	dropOld = newQuery("drop old changes", [dialects]string{
		PostgreSQL: `WITH gone AS (DELETE FROM pawl.changes WHERE namespace=:namespace AND subscription=:name AND seq=ANY(ARRAY(` + oldChanges + `)) RETURNING 1),
			noted AS (UPDATE pawl.subscriptions SET dropped=dropped+(SELECT count(*) FROM gone) WHERE namespace=:namespace AND name=:name AND EXISTS (SELECT 1 FROM gone))
			SELECT count(*) FROM gone`,
		SQLite: `DELETE FROM changes WHERE seq IN (` + oldChanges + `)`,
	})
	noteDropped = newQuery("note dropped changes", [dialects]string{
		PostgreSQL: `SELECT 1`, // its statement before does it
		SQLite:     `UPDATE subscriptions SET dropped=dropped+changes() WHERE namespace=:namespace AND name=:name AND changes()>0`,
	})
)

// DropChanges implements store.Outboxer.
func (v Verbs) DropChanges(ctx context.Context, p store.DropChangesParams) ([]store.DroppedChanges, error) {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return nil, err
	}
	args := Args{{"now", now}, {"namespace", p.Namespace}, {"limit", int64(cmp.Or(p.Limit, 1000))}}
	var list []store.DroppedChanges
	err = v.read(ctx, waitingIn, args, func(scan Scan) error {
		var d store.DroppedChanges
		err := scan(&d.Subscription)
		list = append(list, d)
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var stmts []Stmt
	for i := range list {
		of := append(Args{{"name", list[i].Subscription}}, args...)
		if v.db.Dialect() == PostgreSQL {
			stmts = append(stmts, dropOld.stmt(v.db, of, One(&list[i].Changes)))
			continue
		}
		drop := dropOld.stmt(v.db, of, nil)
		drop.Affected = &list[i].Changes
		stmts = append(stmts, drop, noteDropped.stmt(v.db, of, nil))
	}
	if err := v.db.Write(ctx, stmts...); err != nil {
		return nil, err
	}
	var dropped []store.DroppedChanges
	for _, d := range list {
		if d.Changes > 0 {
			dropped = append(dropped, d)
		}
	}
	return dropped, nil
}
