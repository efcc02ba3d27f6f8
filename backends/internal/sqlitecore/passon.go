package sqlitecore

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A commit that passes permits on leases the next run of the flow and ends its own. As many permits are held afterwards
// as before, so neither statement sets told; only the row of the flow has to be corrected.

// waitsIn is the flow of the runs that wait as a run, e, did before its first claim.
const waitsIn = `'[' || e.under || ',[],0]'`

// nextInFlow selects the runs, n, that wait as a run, e, did.
var nextInFlow = sqlkit.Text(`runs n INDEXED BY runs_flow ON n.namespace=e.namespace AND n.queue=e.queue AND n.workflow=e.workflow AND n.pin=e.pin AND n.priority=e.priority AND n.flow=` + waitsIn + `
	AND n.visible_at IS NOT NULL AND n.status<>{paused} AND n.limited=1`)

// flowOfOwn joins the flow, f, of the runs that wait as a run, e, did.
const flowOfOwn = `limit_flows f ON f.namespace=e.namespace AND f.queue=e.queue AND f.workflow=e.workflow AND f.pin=e.pin AND f.priority=e.priority AND f.flow=` + waitsIn

var (
	// passTake leases the next run if the run that is about to end holds its lease and nothing speaks against it: ?1
	// the run, ?2 namespace, ?3 worker, ?4 epoch, ?5 seq of the commit, ?6 events seen, ?7 now, ?8 the end of the lease,
	// ?9 stamp, ?10 the largest size.
	passTake = sqlkit.Text(`UPDATE runs SET status={running}, epoch=epoch+1, seq=0, stamp=?9, worker=?3, leased=1, limited=0, fresh=0, drawn=1, due_at=visible_at, visible_at=?8, started_at=coalesce(started_at, ?7),
			build=`+runBuild+`, lease_build=(SELECT e.lease_build FROM runs e WHERE e.id=?1), parts=parts & ~{partRecorded}
		WHERE id=(SELECT n.id FROM runs e CROSS JOIN `+nextInFlow+` AND n.visible_at<=?7
				WHERE e.id=?1 AND e.namespace=?2 AND e.worker=?3 AND e.epoch=?4 AND e.seq=?5-1 AND e.leased=1 AND e.status={running} AND e.events=?6 AND e.grp IS NULL AND e.parent IS NULL
				AND e.parts & {partChildren}=0 AND e.under IS NOT NULL AND e.step_under IS NULL AND e.drawn=1 AND e.pin IN ('', e.lease_build)
				AND NOT EXISTS (SELECT 1 FROM subscriptions s WHERE s.namespace=?2)
				AND NOT EXISTS (SELECT 1 FROM paused p WHERE p.namespace=?2 AND (p.queue=e.queue AND p.workflow='' OR p.queue='' AND p.workflow=e.workflow))
				AND NOT EXISTS (SELECT 1 FROM json_each(e.under) u LEFT JOIN limits l ON l.namespace=?2 AND l.name=u.value->>0 LEFT JOIN limit_keys k ON k.namespace=?2 AND k.name=u.value->>0 AND k.key=u.value->>1
					WHERE l.name IS NULL OR l.fair OR coalesce(l.set_rule, l.rule)->>'t'>0 OR k.held IS NULL OR coalesce(l.set_rule, l.rule)->>'c'>0 AND k.held>coalesce(l.set_rule, l.rule)->>'c'
						OR EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=?2 AND f.park_name=u.value->>0 AND f.park_key=u.value->>1 AND f.state=2
							AND (f.queue, f.workflow, f.pin, f.priority, f.flow)<>(e.queue, e.workflow, e.pin, e.priority, `+waitsIn+`)))
				ORDER BY n.visible_at, n.id LIMIT 1)
			AND status={pending} AND parts & ({partsToReplay} | {partLargeInput})=0 AND `+strings.ReplaceAll(inputLength+`+`+metaLength+`+`+failureLength, `r.`, `runs.`)+`<=?10
		RETURNING `) + claimColumns
	// passEnd is plainFinal for the run whose permits the statement before has passed on.
	passEnd = strings.Replace(plainEnd, `leased=0,`, `leased=0, drawn=0,`, 1) + ` AND changes()=1`
	// passFlow and passLast correct the flow, if the statement before has ended the run: ?1 the run, ?2 its stamp.
	passFlow = `UPDATE limit_flows SET (head_at, head_id)=(SELECT n.visible_at, n.id FROM runs e CROSS JOIN ` + nextInFlow + ` WHERE e.id=?1 ORDER BY n.visible_at, n.id LIMIT 1)
		WHERE id=(SELECT f.id FROM runs e CROSS JOIN ` + flowOfOwn + ` WHERE e.id=?1 AND e.stamp=?2) AND EXISTS (SELECT 1 FROM runs e CROSS JOIN ` + nextInFlow + ` WHERE e.id=?1)`
	passLast = `DELETE FROM limit_flows WHERE id=(SELECT f.id FROM runs e CROSS JOIN ` + flowOfOwn + ` WHERE e.id=?1 AND e.stamp=?2)
		AND NOT EXISTS (SELECT 1 FROM runs e CROSS JOIN ` + nextInFlow + ` WHERE e.id=?1)`

	// passedBefore finds the run that has got the permits of a run, ?1, and that is still leased: ?2 namespace, ?3 stamp,
	// ?4 now.
	passedBefore = sqlkit.Text(`SELECT `) + claimColumns + sqlkit.Text(` FROM runs WHERE id=(SELECT n.id FROM runs e CROSS JOIN runs n INDEXED BY runs_claim ON n.namespace=e.namespace AND n.queue=e.queue
		AND n.workflow=e.workflow AND n.pin=e.pin AND n.priority=e.priority AND n.visible_at>?4 AND n.visible_at IS NOT NULL AND n.status<>{paused} AND n.limited=0
		WHERE e.id=?1 AND e.namespace=?2 AND n.stamp=?3 AND n.leased=1 AND n.worker=e.worker)`)
)

// maxPassed is how many ends of a call pass permits on. If there are more, a claim of many runs costs less. The runs that
// get the permits share what a claim may return.
const maxPassed = 4

// passAtMost lets no commit pass permits on if there are too many.
func passAtMost(list []*commit) {
	n := 0
	for _, b := range list {
		if b.passes {
			n++
		}
	}
	for _, b := range list {
		b.passes = b.passes && n <= maxPassed
	}
}

// passed is the run to which a commit has passed the permits of its run on.
type passed struct {
	run   *store.ClaimedRun
	ended int64 // rows
}

// did reports whether the commit has ended its run like this.
func (p *passed) did() bool { return p.ended > 0 }

// passStamp is the stamp of the run that gets the permits of a lease. A repeated commit finds it by that.
func passStamp(l store.Lease) int64 {
	return int64(binary.BigEndian.Uint64(l.Run[8:])+uint64(l.Epoch))&math.MaxInt64 | 1
}

// passOn adds the statements that pass the permits of the commit's run on, and end it, if nothing speaks against that.
func (b *commit) passOn(stmts []Stmt) []Stmt {
	p := sqlkit.PlanOf(b.Commit)
	run, fence := b.Lease.Run[:], []any{b.Lease.Run[:], b.namespace, b.Lease.Worker, b.Lease.Epoch, b.Seq}
	none := func() bool { return b.passed.run == nil }
	return append(stmts,
		Stmt{SQL: passTake, Args: append(fence[:5:5], b.Seen, b.now, b.after(b.Transition.PassOn), passStamp(b.Lease), int64(store.DefaultClaimBytes/maxPassed)), Rows: b.passRow, Unneeded: b.forgetPassed},
		Stmt{SQL: passEnd, Args: slices.Concat([]any{b.Seq, b.stamp, p.Parts, int64(p.Status), blob(p.Output), text(p.Failure), b.now}, fence, []any{b.Seen}), Unneeded: none, Affected: &b.passed.ended},
		Stmt{SQL: passFlow, Args: []any{run, b.stamp}, Unneeded: none},
		Stmt{SQL: passLast, Args: []any{run, b.stamp}, Unneeded: none})
}

// forgetPassed forgets what a transaction that was rolled back has passed on.
func (b *commit) forgetPassed() bool {
	b.passed = passed{}
	return false
}

func (b *commit) passRow(scan func(...any) error) error {
	var run store.Run
	var parts int64
	var due time.Time
	err := scanRun(scan, &run, &parts, sqlkit.Time(&due))
	b.passed.run = sqlkit.Passed(run)
	return err
}

// passedBack finds the run to which a repeated commit has passed the permits on.
func (b *commit) passedBack() Stmt {
	return Stmt{
		SQL: passedBefore, Args: []any{b.Lease.Run[:], b.namespace, passStamp(b.Lease), b.now},
		Unneeded: func() bool { return !b.missed() || !b.res.Repeated },
		Rows: func(scan func(...any) error) error {
			err := b.passRow(scan)
			b.passed.run = sqlkit.PassedBefore(b.passed.run.Run)
			return err
		},
	}
}
