package sqlkit

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/store"
)

var pageOfSteps = page{
	table: `steps`, of: `s.run_id=:run`, key: `branch, name, occurrence`, which: ` AND s.position>:position`, order: `s.position`,
	size: `coalesce(octet_length(s.output), 0)+coalesce(octet_length(s.failure), 0)`, most: `:limit`, bytes: `:bytes`,
	columns: stepHead + ifFits(`s.output`) + `, ` + ifFits(`s.failure`) + stepTimes,
}.query("page of steps")

// Steps implements store.Runs.
func (v Verbs) Steps(ctx context.Context, p store.StepsParams) (store.StepPage, error) {
	if err := p.Validate(); err != nil {
		return store.StepPage{}, err
	}
	var steps []store.Step
	limit, _ := store.Page(p.Limit)
	found, fits, more := false, false, false
	args := Args{{"run", p.Run}, {"position", p.After}, {"limit", int64(limit)}, {"bytes", AtMost(p.MaxBytes)}}
	err := v.db.Read(ctx, v.exists(p.Namespace, p.Run, &found), pageOfSteps.stmt(v.db, args, func(scan Scan) error {
		var s store.Step
		err := ScanStep(scan, &s, v.db.Blob(&s.Output), &fits)
		Keep(&steps, &more, s, fits)
		return err
	}))
	if err == nil && !found {
		return store.StepPage{}, NotFound("run %v", p.Run)
	}
	return p.PageOf(steps, more), err
}

// pageOfState reads entries of a state, in the columns that [ScanEntry] takes.
func pageOfState(which, most string) page {
	return page{
		table: `state`, of: `s.run_id=:run`, key: `key`, which: which, order: `s.key`,
		size: `coalesce(octet_length(s.value), 0)`, most: most, bytes: `:bytes`,
		columns: `s.key, ` + ifFits(`s.value`) + `, s.version, s.updated_at`,
	}
}

// someState reads the keys after a key: those of :keys, or (:all) all.
var someState = pageOfState(` AND s.key>:key AND (:all OR s.key {in} :keys)`, `:limit`).query("some state")

// GetState implements store.Coordination.
func (v Verbs) GetState(ctx context.Context, p store.GetStateParams) ([]store.StateEntry, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var entries []store.StateEntry
	found, fits, more := false, false, false
	args := Args{
		{"run", p.Run}, {"bytes", AtMost(p.MaxBytes)}, {"key", p.After}, {"all", len(p.Keys) == 0}, {"keys", p.Keys},
		{"limit", cmp.Or(int64(p.Limit), math.MaxInt32)},
	}
	err := v.db.Read(ctx, v.exists(p.Namespace, p.Run, &found), someState.stmt(v.db, args, func(scan Scan) error {
		var e store.StateEntry
		err := ScanEntry(scan, &e, v.db.Blob(&e.Value), &fits)
		Keep(&entries, &more, e, fits)
		return err
	}))
	if err == nil && !found {
		return nil, NotFound("run %v", p.Run)
	}
	return entries, err
}

var maxPage = strconv.Itoa(store.MaxPage)

// The statements that Inbox runs.
var (
	inboxRun     = NewQuery("inbox", `SELECT r.status, r.events, r.parts FROM pawl.runs r WHERE r.id=:run AND r.namespace=:namespace`)
	inboxSignals = page{
		table: `signals`, of: `s.run_id=:run`, key: `id`, which: ` AND {unread} AND s.pos>:position AND (:signal='' OR s.name=:signal)`, order: `s.pos`,
		size: `coalesce(octet_length(s.payload), 0)`, most: maxPage, bytes: `:bytes`,
		columns: `s.id, s.name, ` + ifFits(`s.payload`) + `, s.sent_at, s.pos`,
	}.query("inbox: signals")
	inboxState  = pageOfState(``, maxPage).query("inbox: state")
	inboxGroups = groups("inbox: groups", ``)
	inboxGroup  = groups("inbox: one group", ` AND s.name=:group`)
)

func groups(name, which string) *Query {
	return NewQuery(name, `SELECT `+GroupColumns+` FROM pawl.groups s WHERE s.run_id=:run AND s.name>:after`+which+`
		ORDER BY s.name LIMIT `+maxPage+`+1`)
}

// Inbox implements store.Coordination.
func (v Verbs) Inbox(ctx context.Context, p store.InboxParams) (store.Inbox, error) {
	if err := p.Validate(); err != nil {
		return store.Inbox{}, err
	}
	var in store.Inbox
	var parts int64
	var fits bool
	args := Args{
		{"run", p.Run}, {"namespace", p.Namespace}, {"bytes", AtMost(p.MaxBytes)}, {"position", p.After}, {"signal", p.Name},
		{"after", p.AfterGroup}, {"group", p.Group},
	}
	list := []Stmt{inboxRun.stmt(v.db, args, One(&in.Status, &in.Events, &parts))}
	add := func(part int64, q *Query, rows func(Scan) error) {
		st := q.stmt(v.db, args, rows)
		st.Unneeded = func() bool { return parts&part == 0 }
		list = append(list, st)
	}
	add(PartSignals, inboxSignals, func(scan Scan) error {
		var s store.Signal
		err := ScanSignal(scan, &s, v.db.Blob(&s.Payload), &fits)
		Keep(&in.Signals, &in.MoreSignals, s, fits)
		return err
	})
	if !p.NoState {
		add(PartState, inboxState, func(scan Scan) error {
			var e store.StateEntry
			err := ScanEntry(scan, &e, v.db.Blob(&e.Value), &fits)
			Keep(&in.State, &in.MoreState, e, fits)
			return err
		})
	}
	which := inboxGroups
	if p.Group != "" {
		which = inboxGroup
	}
	add(PartGroups, which, func(scan Scan) error {
		g, err := ScanGroup(scan)
		Keep(&in.Groups, &in.MoreGroups, g, len(in.Groups) < store.MaxPage)
		return err
	})
	err := v.db.Read(ctx, list...)
	if err == nil && in.Status == 0 {
		return store.Inbox{}, NotFound("run %v", p.Run)
	}
	return in, err
}

var sentSignals = NewQuery("sent signals", `SELECT s.pos, s.consumed, s.id, CASE WHEN s.consumed THEN '' ELSE s.name END, CASE WHEN NOT s.consumed THEN s.payload END,
	CASE WHEN NOT s.consumed THEN s.sent_at END, s.answered_at, s.answer, s.failure FROM pawl.signals s WHERE s.run_id=:run AND s.pos>:position ORDER BY s.pos LIMIT :limit+0`)

// Sent implements store.Exporter.
func (v Verbs) Sent(ctx context.Context, p store.SentParams) (store.SentPage, error) {
	if err := p.Validate(); err != nil {
		return store.SentPage{}, err
	}
	limit, _ := store.Page(p.Limit)
	var sent []store.SentSignal
	found := false
	args := Args{{"run", p.Run}, {"position", p.After}, {"limit", int64(limit)}}
	err := v.db.Read(ctx, v.exists(p.Namespace, p.Run, &found), sentSignals.stmt(v.db, args, func(scan Scan) error {
		var s store.SentSignal
		var at time.Time
		var answer []byte
		var failure *store.Failure
		err := scan(&s.Position, &s.Consumed, ID(&s.ID), &s.Name, v.db.Blob(&s.Payload), Time(&s.SentAt), Time(&at), v.db.Blob(&answer), Failure(&failure))
		s.Given = GivenRow(s.ID, at, answer, failure)
		sent = append(sent, s)
		return err
	}))
	if err == nil && !found {
		return store.SentPage{}, NotFound("run %v", p.Run)
	}
	return p.PageOf(sent), err
}
