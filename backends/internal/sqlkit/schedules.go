package sqlkit

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// scanSchedule reads a schedule from the columns after those of first.
func (v Verbs) scanSchedule(scan Scan, s *store.Schedule, first ...any) error {
	return scan(append(first,
		&s.Name, &s.Workflow, &s.Queue, &s.Spec, v.db.Blob(&s.Input), v.db.Blob(&s.Meta), &s.Paused, Time(&s.NextAt),
		Time(&s.LastAt), Time(&s.CreatedAt), Time(&s.UpdatedAt))...)
}

// putSchedule never uses a time of change twice.
var putSchedule = NewQuery("put schedule", `INSERT INTO pawl.schedules AS s (namespace, name, workflow, queue, spec, input, meta, paused, next_at, created_at, updated_at)
	VALUES (:namespace, :name, :workflow, :queue, :spec, :input, :meta, :paused, :next, :now, :now)
	ON CONFLICT (namespace, name) DO UPDATE SET workflow=excluded.workflow, queue=excluded.queue, spec=excluded.spec, input=excluded.input,
		meta=excluded.meta, paused=excluded.paused, next_at=excluded.next_at, updated_at={greatest}(excluded.updated_at, s.updated_at+1)
	RETURNING name, workflow, queue, spec, input, meta, paused, next_at, last_at, created_at, updated_at`)

// PutSchedule implements store.Schedules.
func (v Verbs) PutSchedule(ctx context.Context, p store.PutScheduleParams) (store.Schedule, error) {
	now, _, err := v.moment(ctx, p.Validate(v.db.Limits()), p.Now)
	if err != nil {
		return store.Schedule{}, err
	}
	s := &p.Schedule
	args := Args{
		{"now", now}, {"namespace", p.Namespace}, {"name", s.Name}, {"workflow", s.Workflow}, {"queue", s.Queue}, {"spec", s.Spec},
		{"input", s.Input}, {"meta", s.Meta}, {"paused", s.Paused}, {"next", s.NextAt},
	}
	var out store.Schedule
	stmts := []Stmt{putSchedule.stmt(v.db, args, func(scan Scan) error { return v.scanSchedule(scan, &out) })}
	err = v.db.Write(ctx, append(stmts, Journal{v.db, p.Namespace, now, p.Record}.As(store.Done)...)...)
	if err != nil {
		return store.Schedule{}, err
	}
	v.db.Publish(ctx, store.Hint{Kind: store.HintRescan})
	return out, nil
}

var (
	// From here on, it locks out each Fire, and no schedule of its name can be put until the end.
	dropSchedule = newRecorded("drop schedule", `DELETE FROM pawl.schedules WHERE namespace=:namespace AND name=:schedule`, false)
	dropFirings  = NewQuery("drop firings", `DELETE FROM pawl.firings WHERE namespace=:namespace AND schedule=:schedule
		AND NOT EXISTS (SELECT 1 FROM pawl.schedules s WHERE s.namespace=:namespace AND s.name=:schedule)`)
)

// DeleteSchedule implements store.Schedules.
func (v Verbs) DeleteSchedule(ctx context.Context, p store.DeleteScheduleParams) error {
	now, _, err := v.moment(ctx, p.Validate(), p.Now)
	if err != nil {
		return err
	}
	var dropped int64
	args := Args{{"namespace", p.Namespace}, {"schedule", p.Name}, {"now", now}}
	err = v.db.Write(ctx, append(dropSchedule.stmts(v.db, args, p.Record, &dropped), dropFirings.stmt(v.db, args, nil))...)
	if err == nil && dropped == 0 {
		return NotFound("schedule %q", p.Name)
	}
	return err
}

// Pages of schedules, of :names or (:all) of all names: those after a name, and those that are due
// except for the names that the caller has seen.
var (
	schedulesByName = pageOfSchedules(`s.name>:after`, `s.name`).query("schedules by name")
	schedulesDue    = pageOfSchedules(`{unpaused} AND s.next_at IS NOT NULL AND NOT s.name {in} :except AND s.next_at<=:now`, `s.next_at, s.name`).query("schedules due")
)

func pageOfSchedules(which, order string) page {
	return page{
		table: `schedules`, of: `s.namespace=:namespace`, key: `name`, which: ` AND ` + which + ` AND (:all OR s.name {in} :names)`, order: order,
		size: `coalesce(octet_length(s.input), 0)+coalesce(octet_length(s.meta), 0)`, most: `:limit`, bytes: pageBytes,
		columns: `s.name, s.workflow, s.queue, s.spec, ` + ifFits(`s.input`) + `, ` + ifFits(`s.meta`) + `, s.paused, s.next_at, s.last_at, s.created_at, s.updated_at`,
	}
}

// nextDues reads the earliest time, the earliest time that is still in the future, and the present
// time.
var nextDues = NewQuery("next due schedules", `SELECT (SELECT min(s.next_at) FROM pawl.schedules s WHERE s.namespace=:namespace AND {unpaused} AND s.next_at IS NOT NULL),
	(SELECT min(s.next_at) FROM pawl.schedules s WHERE s.namespace=:namespace AND {unpaused} AND s.next_at IS NOT NULL AND s.next_at>:now), :now`)

// ListSchedules implements store.Schedules.
func (v Verbs) ListSchedules(ctx context.Context, p store.ListSchedulesParams) (store.SchedulePage, error) {
	after, err := p.Position()
	if invalid := p.Validate(); invalid != nil {
		err = invalid
	} else if p.Due { // a page of due schedules has no cursor
		err = nil
	}
	now, _, err := v.moment(ctx, err, p.Now)
	if err != nil {
		return store.SchedulePage{}, err
	}
	limit, _ := store.Page(p.Limit)
	args := Args{
		{"now", now}, {"namespace", p.Namespace}, {"after", after}, {"all", len(p.Names) == 0}, {"names", p.Names},
		{"except", p.Except}, {"limit", int64(limit)},
	}
	list := schedulesByName
	if p.Due {
		list = schedulesDue
	}
	var page store.SchedulePage
	fits, more := false, false
	rows := func(scan Scan) error {
		var s store.Schedule
		err := v.scanSchedule(scan, &s, &fits)
		Keep(&page.Schedules, &more, s, fits)
		return err
	}
	err = v.db.Read(ctx, list.stmt(v.db, args, rows), nextDues.stmt(v.db, args, One(Time(&page.NextDue), Time(&page.Later), Time(&page.Now))))
	if err != nil {
		return store.SchedulePage{}, err
	}
	if more && !p.Due {
		page.Next = p.NextCursor(page.Schedules[len(page.Schedules)-1].Name)
	}
	return page, nil
}

var (
	hasSchedule = NewQuery("find schedule", `SELECT 1 FROM pawl.schedules WHERE namespace=:namespace AND name=:schedule`)
	listFirings = NewQuery("list firings", `SELECT at, fired_at, run FROM pawl.firings WHERE namespace=:namespace AND schedule=:schedule AND at<:before
		ORDER BY at DESC LIMIT :limit+1`)
)

// ListFirings implements store.Schedules.
func (v Verbs) ListFirings(ctx context.Context, p store.ListFiringsParams) (store.FiringPage, error) {
	var page store.FiringPage
	if err := p.Validate(); err != nil {
		return page, err
	}
	limit, _ := store.Page(p.Limit)
	before, err := FiringsBefore(&p)
	if err != nil {
		return page, err
	}
	found := false
	args := Args{{"namespace", p.Namespace}, {"schedule", p.Schedule}, {"before", before}, {"limit", int64(limit)}}
	err = v.db.Read(ctx,
		hasSchedule.stmt(v.db, args, func(Scan) error { found = true; return nil }),
		listFirings.stmt(v.db, args, func(scan Scan) error {
			var f store.Firing
			err := scan(Time(&f.At), Time(&f.FiredAt), ID(&f.Run))
			page.Firings = append(page.Firings, f)
			return err
		}))
	if err == nil && !found {
		return page, NotFound("schedule %q", p.Schedule)
	}
	FiringsPage(&p, &page, limit)
	return page, err
}
