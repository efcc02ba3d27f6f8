package sqlkit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawlhq/pawl/store"
)

// StreamColumns are the columns of a stored item, in the order of an insert.
const StreamColumns = `run_id, position, stream, branch, step, occurrence, generation, epoch, attempt, number, reset, at, items, bytes, payload`

// streamFacts are what decides about a write to a stream: newer (a later attempt of the lease has written), ends
// (the number of the attempt's last item), and freed and lighter (the items of other attempts, and their
// bytes). r is the run, and w names the write's columns.
func streamFacts(r, generation string, w func(column string) string) string {
	key := fmt.Sprintf(`s.run_id=%[1]s.id AND s.stream=%[2]s AND s.branch=%[3]s AND s.step=%[4]s AND s.occurrence=%[5]s AND s.generation=%[6]s`,
		r, w("stream"), w("branch"), w("step"), w("occurrence"), generation)
	mine := `s.epoch=` + r + `.epoch AND s.attempt=` + w("attempt")
	return `(SELECT count(*) FROM (SELECT 1 FROM pawl.stream_items s WHERE ` + key + ` AND s.epoch=` + r + `.epoch AND s.attempt>` + w("attempt") + ` LIMIT 1) n) AS newer,
		coalesce((SELECT s.number FROM pawl.stream_items s WHERE ` + key + ` AND ` + mine + ` ORDER BY s.number DESC LIMIT 1), 0) AS ends,
		(SELECT count(*) FROM pawl.stream_items s WHERE ` + key + ` AND (s.epoch, s.attempt)<(` + r + `.epoch, ` + w("attempt") + `)) AS freed,
		(SELECT coalesce(sum(coalesce(octet_length(s.payload), 0)), 0) FROM pawl.stream_items s WHERE ` + key + ` AND (s.epoch, s.attempt)<(` + r + `.epoch, ` + w("attempt") + `)) AS lighter`
}

// ofHead is a column of the last item of a run.
func ofHead(r, column string) string {
	return `coalesce((SELECT s.` + column + ` FROM pawl.stream_items s WHERE s.run_id=` + r + `.id ORDER BY s.position DESC LIMIT 1), 0)`
}

// StreamPlan is a common table, c, of at most one row: what a write to a stream meets in its run, if guard, a
// condition on r, holds. generation is an expression for the generation that writes. param writes the parameters stream, branch, step, occurrence, attempt, first (the number
// of the first item), n and size (the number of items and their bytes). The columns of c are those of
// [StreamMet], id, generation, epoch and position (of the last item), and fresh: whether the write is to be
// applied.
func StreamPlan(guard, generation string, param func(name string) string) string {
	last := param("first") + `+` + param("n") + `-1`
	return `x AS MATERIALIZED (SELECT r.id, ` + generation + ` AS generation, r.epoch, ` + streamFacts("r", generation, param) + `, ` + ofHead("r", "position") + ` AS position, ` + ofHead("r", "items") + ` AS had, ` + ofHead("r", "bytes") + ` AS weighed
		FROM pawl.runs r WHERE ` + guard + `),
	c AS MATERIALIZED (SELECT x.*, x.had-x.freed+` + param("n") + ` AS items, x.weighed-x.lighter+` + param("size") + ` AS bytes,
		x.newer=0 AND ` + param("first") + `=x.ends+1 AND x.had-x.freed+` + param("n") + `<=` + maxStreamItems + ` AND x.weighed-x.lighter+` + param("size") + `<=` + maxStreamBytes + ` AS fresh,
		x.newer=0 AND ` + last + `<=x.ends AS repeated FROM x)`
}

var maxStreamItems, maxStreamBytes = strconv.Itoa(store.MaxStreamItems), strconv.Itoa(store.MaxStreamBytes)

// StreamsFit is a condition on a run, r, that is updated: all writes of a commit can be applied, or were applied. from
// selects the writes, with the columns stream, branch, step, occurrence, attempt, first, n and size.
func StreamsFit(r, from string) string {
	return streamsSum(r, from, `max(q.wrong)=0 AND `+ofHead(r, "items")+`+sum(q.more)<=`+maxStreamItems+` AND `+ofHead(r, "bytes")+`+sum(q.weight)<=`+maxStreamBytes)
}

// StreamsMet is an expression for what the writes of a commit meet in a run, r: a text that [StreamsRefused] reads.
func StreamsMet(r, from string) string {
	return streamsSum(r, from, `max(q.wrong) || ' ' || (`+ofHead(r, "items")+`+sum(q.more)) || ' ' || (`+ofHead(r, "bytes")+`+sum(q.weight))`)
}

func streamsSum(r, from, what string) string {
	return `(SELECT ` + what + ` FROM (SELECT
			CASE WHEN p.newer>0 THEN 1 WHEN p.first>p.ends+1 THEN 2 WHEN p.first<=p.ends AND p.first+p.n-1>p.ends THEN 3 ELSE 0 END AS wrong,
			CASE WHEN p.first+p.n-1<=p.ends THEN 0 ELSE p.n-p.freed END AS more,
			CASE WHEN p.first+p.n-1<=p.ends THEN 0 ELSE p.size-p.lighter END AS weight
		FROM (SELECT w.first, w.n, w.size, ` + streamFacts(r, r+".generation", func(column string) string { return `w.` + column }) + ` FROM ` + from + ` w) p) q)`
}

// StreamRows lists the writes of a commit, for a JSON parameter: stream, branch, step, occurrence, attempt, first, n
// and size.
func StreamRows(writes []store.StreamWrite) string {
	rows := make([][]any, len(writes))
	for i := range writes {
		w := &writes[i]
		rows[i] = []any{w.Stream, w.Step.Branch, w.Step.Name, w.Step.Occurrence, w.Attempt, w.First, len(w.Items), w.Size()}
	}
	return JSON(rows)
}

// A StreamMet is what a write has met: a row of c of [StreamPlan].
type StreamMet struct {
	Found        bool
	Newer, Ends  int64
	Items, Bytes int64
	Fresh        bool
	Repeated     bool
}

// StreamMetColumns are what Row reads.
const StreamMetColumns = `c.newer, c.ends, c.items, c.bytes, c.fresh, c.repeated`

// Row reads the row.
func (m *StreamMet) Row(scan Scan) error {
	m.Found = true
	return scan(&m.Newer, &m.Ends, &m.Items, &m.Bytes, &m.Fresh, &m.Repeated)
}

// Result makes the answer to an append whose lease is the run's present one if m was found.
func (m *StreamMet) Result(p *store.AppendParams) (store.AppendResult, error) {
	switch {
	case !m.Found:
		return store.AppendResult{}, LeaseLost(p.Lease)
	case m.Newer > 0:
		return store.AppendResult{}, store.SupersededAttempt(p.Lease, &p.StreamWrite)
	case m.Fresh:
		return store.AppendResult{}, nil
	case p.First > m.Ends+1:
		return store.AppendResult{}, store.ItemsMissing(p.Lease, &p.StreamWrite, m.Ends)
	case m.Repeated:
		return store.AppendResult{Repeated: true}, nil
	case p.First <= m.Ends:
		return store.AppendResult{}, mixedNumbers(p.Stream)
	}
	return store.AppendResult{}, store.CheckStreams(m.Items, m.Bytes)
}

func mixedNumbers(stream string) error {
	return store.Invalid("stream "+strconv.Quote(stream), "some of the items are stored and others are not; an append that is sent again has the same items")
}

// StreamsRefused is the error for a commit whose writes [StreamsMet] describes; nil: they fit.
func StreamsRefused(met string) error {
	var wrong, items, bytes int64
	if _, err := fmt.Sscan(met, &wrong, &items, &bytes); err != nil {
		return fmt.Errorf("what a commit has met in its streams is %q: %w", met, err)
	}
	switch wrong {
	case 1:
		return store.Invalid("streams", "a later attempt of the step has written to the stream")
	case 2:
		return store.Invalid("streams", "the numbers of the items do not follow those of the attempt's stored ones")
	case 3:
		return mixedNumbers("of the commit")
	}
	return store.CheckStreams(items, bytes)
}

// Streams adds the hint that items of streams have become visible, if the commit has any: one for all of them.
func (h *Hints) Streams(c *store.Commit) {
	if len(c.Streams) > 0 {
		h.Stream(c.Lease.Run)
	}
}

// Stream adds the hint that items of streams of the run have become visible.
func (h *Hints) Stream(run store.ID) { h.add(store.HintStream, run) }

var pageOfItems = page{
	table: `stream_items`, of: `s.run_id=:run`, key: `position`, which: ` AND s.position>:position AND (:stream='' OR s.stream=:stream)`, order: `s.position`,
	size: `coalesce(octet_length(s.payload), 0)`, most: `:limit`, bytes: `:bytes`,
	columns: `s.position, s.stream, s.branch, s.step, s.occurrence, s.attempt, s.epoch, s.generation, s.number, s.reset, s.at, ` + ifFits(`s.payload`),
}.query("page of items")

var streamRun = NewQuery("stream", `SELECT r.status FROM pawl.runs r WHERE r.id=:run AND r.namespace=:namespace`)

// ReadStream implements store.Streamer.
func (v Verbs) ReadStream(ctx context.Context, p store.ReadStreamParams) (store.StreamPage, error) {
	if err := p.Validate(); err != nil {
		return store.StreamPage{}, err
	}
	var items []store.StreamItem
	var status int16
	limit, _ := store.Page(p.Limit)
	fits, more := false, false
	args := Args{{"run", p.Run}, {"namespace", p.Namespace}, {"position", p.After}, {"stream", p.Stream}, {"limit", int64(limit)}, {"bytes", AtMost(p.Bytes())}}
	read := pageOfItems.stmt(v.db, args, func(scan Scan) error {
		var it store.StreamItem
		err := scan(&fits, &it.Position, &it.Stream, &it.Step.Branch, &it.Step.Name, &it.Step.Occurrence, &it.Attempt, &it.Epoch, &it.Generation, &it.Number, &it.Reset, Time(&it.At), v.db.Blob(&it.Payload))
		Keep(&items, &more, it, fits)
		return err
	})
	read.Unneeded = func() bool { return status == 0 }
	err := v.db.Read(ctx, streamRun.stmt(v.db, args, One(&status)), read)
	switch {
	case err != nil:
		return store.StreamPage{}, err
	case status == 0:
		return store.StreamPage{}, NotFound("run %v", p.Run)
	}
	return p.PageOf(items, more, store.Status(status)), nil
}
