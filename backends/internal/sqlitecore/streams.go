package sqlitecore

import (
	"context"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// streamParams are the numbers of the parameters of a write to a stream. ?1 and ?2 are a table of the items: the
// number and the payload. ?3 is the time, and ?12 to ?15 those of the guard.
var streamParams = map[string]string{"stream": "?4", "branch": "?5", "step": "?6", "occurrence": "?7", "attempt": "?8", "first": "?9", "n": "?10", "size": "?11"}

func streamParam(name string) string { return streamParams[name] }

const (
	// heldBy: run, namespace, worker, epoch.
	heldBy = `r.id=?12 AND r.namespace=?13 AND r.worker=?14 AND r.epoch=?15 AND r.leased=1`
	// stamped: run, stamp. A commit that continues the run (?14 is 1) has begun the next generation.
	stamped    = `r.id=?12 AND r.stamp=?13`
	generation = `r.generation-?14`
)

// putItems stores the items of a write if they are new.
func putItems(guard, generation string) string {
	return lite(`INSERT INTO stream_items (` + sqlkit.StreamColumns + `)
		WITH ` + sqlkit.StreamPlan(guard, generation, streamParam) + `
		SELECT c.id, c.position+j.key+1, ?4, ?5, ?6, ?7, c.generation, c.epoch, ?8, j.value->>0, j.key=0 AND c.freed>0, ?3, c.items, c.bytes, substr(?2, j.value->>1, j.value->>2)
		FROM c CROSS JOIN json_each(?1) j WHERE c.fresh`)
}

// dropItems deletes what a write has superseded, once it is stored. Its parameters have the same numbers.
func dropItems(guard, generation string) string {
	return lite(`DELETE FROM stream_items WHERE (run_id, position) IN (SELECT s.run_id, s.position FROM pawl.runs r CROSS JOIN pawl.stream_items s ON s.run_id=r.id AND s.stream=?4 AND s.branch=?5 AND s.step=?6
			AND s.occurrence=?7 AND s.generation=` + generation + ` AND (s.epoch, s.attempt)<(r.epoch, ?8) WHERE ` + guard + `
			AND EXISTS (SELECT 1 FROM pawl.stream_items n WHERE n.run_id=r.id AND n.stream=?4 AND n.branch=?5 AND n.step=?6 AND n.occurrence=?7 AND n.generation=` + generation + ` AND n.epoch=r.epoch AND n.attempt=?8 AND n.number=?9))`)
}

var (
	appendItems, appendDrops = putItems(heldBy, "r.generation"), dropItems(heldBy, "r.generation")
	commitItems, commitDrops = putItems(stamped, generation), dropItems(stamped, generation)
	appendMet                = lite(`WITH ` + sqlkit.StreamPlan(heldBy, "r.generation", streamParam) + ` SELECT ` + sqlkit.StreamMetColumns + ` FROM c`)

	// streamRows: the writes of a commit.
	streamRows = `(SELECT value->>0 AS stream, value->>1 AS branch, value->>2 AS step, value->>3 AS occurrence, value->>4 AS attempt, value->>5 AS first, value->>6 AS n, value->>7 AS size FROM json_each(?))`
	streamsFit = ` AND ` + lite(sqlkit.StreamsFit("runs", streamRows))
	// streamsMet: the writes of a commit, run, namespace.
	streamsMet = `SELECT ` + lite(sqlkit.StreamsMet("runs", streamRows)) + ` FROM runs WHERE id=? AND namespace=?`

	importItems = `INSERT INTO stream_items (` + sqlkit.StreamColumns + `)
		SELECT r.id, j.value->>0, j.value->>1, j.value->>2, j.value->>3, j.value->>4, j.value->>5, j.value->>6, j.value->>7, j.value->>8, j.value->>9, j.value->>10, j.value->>11, j.value->>12,
			substr(?2, j.value->>13, j.value->>14) FROM json_each(?1) j CROSS JOIN runs r WHERE r.id=?3 AND r.stamp=?4`
)

// lite removes the schema from a statement that the dialects share.
func lite(sql string) string { return strings.ReplaceAll(sql, "pawl.", "") }

// streamArgs are the arguments ?1 to ?11 of a write.
func streamArgs(w *store.StreamWrite, now int64) []any {
	var t table
	for i, item := range w.Items {
		t.row(w.First+int64(i), payload(item))
	}
	return t.args(now, w.Stream, w.Step.Branch, w.Step.Name, int64(w.Step.Occurrence), int64(w.Attempt), w.First, int64(len(w.Items)), int64(w.Size()))
}

// dropArgs are those of the statement that deletes: the same without the items.
func dropArgs(args []any) []any {
	return append([]any{nil, nil}, args[2:]...)
}

// Append implements store.Streamer.
func (c *Core) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	now, err := c.valid(ctx, p.Validate(c.config.Limits), p.Now)
	if err != nil {
		return store.AppendResult{}, err
	}
	if n := p.Size(); n > maxTable {
		return store.AppendResult{}, &store.TooLargeError{Field: "the items of the append", Size: n, Limit: maxTable}
	}
	var added int64
	met := sqlkit.StreamMet{}
	args := append(streamArgs(&p.StreamWrite, now), p.Lease.Run[:], p.Namespace, p.Lease.Worker, p.Lease.Epoch)
	err = c.runner.Write(ctx, []Stmt{
		{SQL: appendItems, Args: args, Affected: &added},
		{SQL: appendDrops, Args: dropArgs(args), Unneeded: func() bool { return added == 0 }},
		{SQL: appendMet, Args: dropArgs(args), Unneeded: func() bool { return added > 0 }, Rows: met.Row},
	})
	switch {
	case err != nil:
		return store.AppendResult{}, err
	case added == 0:
		return met.Result(&p)
	}
	c.publish(store.Hint{Kind: store.HintStream, Namespace: p.Namespace, Run: p.Lease.Run})
	return store.AppendResult{}, nil
}

// stream adds the statements that store the items of a commit.
func (b *commit) stream(stmts []Stmt) []Stmt {
	for i := range b.Streams {
		args := append(streamArgs(&b.Streams[i], b.now), b.Lease.Run[:], b.stamp, flag(b.Transition != nil && b.Transition.Kind == store.Continue))
		stmts = append(stmts, Stmt{SQL: commitItems, Args: args, Unneeded: b.missed}, Stmt{SQL: commitDrops, Args: dropArgs(args), Unneeded: b.missed})
	}
	return stmts
}

// streamsBack says which writes to streams have refused the commit.
func (b *commit) streamsBack(next *bool) Stmt {
	return Stmt{
		SQL: streamsMet, Args: []any{sqlkit.StreamRows(b.Streams), b.Lease.Run[:], b.namespace}, Unneeded: func() bool { return !b.missed() },
		Rows: func(scan func(...any) error) error {
			var met string
			err := scan(&met)
			if err == nil && b.missed() && *next {
				if refused := sqlkit.StreamsRefused(met); refused != nil {
					*b.res = store.CommitResult{Err: refused}
				}
			}
			return err
		},
	}
}

// importStream adds the statements that store the items of an imported run.
func importStream(stmts []Stmt, items []store.StreamItem, id []byte, stamp int64, unneeded func() bool) []Stmt {
	total := int64(0)
	var t table
	flush := func() {
		if t.list != nil {
			stmts = append(stmts, Stmt{SQL: importItems, Args: t.args(id, stamp), Unneeded: unneeded})
		}
		t = table{}
	}
	for i := range items {
		it := &items[i]
		if len(t.data)+len(it.Payload) > maxTable {
			flush()
		}
		total += int64(len(it.Payload))
		t.row(it.Position, it.Stream, it.Step.Branch, it.Step.Name, int64(it.Step.Occurrence), int64(it.Generation), it.Epoch, int64(it.Attempt), it.Number, flag(it.Reset), it.At.UnixMicro(),
			int64(i+1), total, payload(it.Payload))
	}
	flush()
	return stmts
}
