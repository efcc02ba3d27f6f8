package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// streamParams are the parameters of a write to a stream. $1 is the time, $10 the payloads, and $11 to $14 are those of
// the guard.
var streamParams = map[string]string{
	"stream": "$2::text", "branch": "$3::text", "step": "$4::text", "occurrence": "$5::bigint", "attempt": "$6::bigint", "first": "$7::bigint", "n": "$8::bigint", "size": "$9::bigint",
}

// writeItems stores the items of a write if they are new, deletes what they supersede, and returns what the write has
// met. A statement before it has locked the run, so that its snapshot has the run's last item.
func writeItems(guard, generation string) string {
	return `WITH ` + sqlkit.StreamPlan(guard, generation, func(name string) string { return streamParams[name] }) + `,
	put AS (INSERT INTO pawl.stream_items (` + sqlkit.StreamColumns + `)
		SELECT c.id, c.position+j.k, $2::text, $3::text, $4::text, $5::bigint, c.generation, c.epoch, $6::bigint, $7::bigint+j.k-1, j.k=1 AND c.freed>0, ` + now + `, c.items, c.bytes, j.payload
		FROM c CROSS JOIN unnest($10::bytea[]) WITH ORDINALITY AS j(payload, k) WHERE c.fresh),
	gone AS (DELETE FROM pawl.stream_items s USING c WHERE c.fresh AND c.freed>0 AND s.run_id=c.id AND s.stream=$2::text AND s.branch=$3::text AND s.step=$4::text AND s.occurrence=$5::bigint
		AND s.generation=c.generation AND (s.epoch, s.attempt)<(c.epoch, $6::bigint))
	SELECT ` + sqlkit.StreamMetColumns + ` FROM c`
}

var (
	// appendItems: run, namespace, worker, epoch after the parameters of the write.
	appendItems = writeItems(`r.id=$11::uuid AND r.namespace=$12::text AND r.worker=$13::text AND r.epoch=$14::bigint AND r.leased`, `r.generation`)
	// commitItems: run, stamp, and whether the commit has begun the next generation (1) after those of the write.
	commitItems = writeItems(`r.id=$11::uuid AND r.stamp=$12::bigint`, `r.generation-$13::bigint`)

	// lockRun makes writes to the streams of a run follow one another, so that each sees the last item of the one
	// before.
	lockRun = `SELECT true FROM pawl.runs r WHERE r.id=$1::uuid FOR NO KEY UPDATE`

	// streamsMet: $1 the writes of a commit, $2 run, $3 namespace.
	streamsMet = `SELECT ` + sqlkit.StreamsMet("runs", streamRows(1)) + ` FROM pawl.runs WHERE id=$2::uuid AND namespace=$3::text`

	importItems = `INSERT INTO pawl.stream_items (` + sqlkit.StreamColumns + `)
		SELECT $1::uuid, $3::bigint, $4::text, $5::text, $6::text, $7::bigint, $8::bigint, $9::bigint, $10::bigint, $11::bigint, $12::boolean, $13::bigint, $14::bigint, $15::bigint, $16::bytea` + ours
)

// streamRows are the writes of a commit as a table, of the nth parameter.
func streamRows(n int) string {
	return `(SELECT v->>0 AS stream, v->>1 AS branch, v->>2 AS step, (v->>3)::bigint AS occurrence, (v->>4)::bigint AS attempt, (v->>5)::bigint AS first, (v->>6)::bigint AS n, (v->>7)::bigint AS size
		FROM jsonb_array_elements($` + strconv.Itoa(n) + `::jsonb) v)`
}

// streamArgs are the arguments $1 to $10 of a write.
func streamArgs(w *store.StreamWrite, setnow any) []any {
	return []any{setnow, w.Stream, w.Step.Branch, w.Step.Name, int64(w.Step.Occurrence), int64(w.Attempt), w.First, int64(len(w.Items)), int64(w.Size()), w.Items}
}

func lock(run store.ID) stmt {
	return stmt{sql: lockRun, args: []any{uuid(run)}, rows: func(scan func(...any) error) error { return scan(new(bool)) }}
}

// Append implements store.Streamer.
func (s *Store) Append(ctx context.Context, p store.AppendParams) (store.AppendResult, error) {
	if err := p.Validate(s.config.limits); err != nil {
		return store.AppendResult{}, err
	}
	var met sqlkit.StreamMet
	args := append(streamArgs(&p.StreamWrite, setNow(p.Now)), uuid(p.Lease.Run), p.Namespace, p.Lease.Worker, p.Lease.Epoch)
	reset := begin(func() { met = sqlkit.StreamMet{} })
	if err := s.write(ctx, reset, lock(p.Lease.Run), stmt{sql: appendItems, args: args, rows: met.Row}); err != nil {
		return store.AppendResult{}, err
	}
	res, err := met.Result(&p)
	if err == nil && !res.Repeated {
		h := sqlkit.NewHints(p.Namespace)
		h.Stream(p.Lease.Run)
		s.publishAll(h)
	}
	return res, err
}

// stream adds the statements that store the items of a commit.
func (b *commit) stream(stmts []stmt) []stmt {
	for i := range b.Streams {
		again := int64(0)
		if b.Transition != nil && b.Transition.Kind == store.Continue {
			again = 1
		}
		args := append(streamArgs(&b.Streams[i], b.setnow), uuid(b.Lease.Run), b.stamp, again)
		stmts = append(stmts, stmt{sql: commitItems, args: args, rows: new(sqlkit.StreamMet).Row})
	}
	return stmts
}

// fenceStreams adds to the fence of a commit that its streams take the items.
func (b *commit) fenceStreams(sql string, args []any) (string, []any) {
	if len(b.Streams) == 0 {
		return sql, args
	}
	fits := ` AND ` + sqlkit.StreamsFit("runs", streamRows(len(args)+1))
	return strings.Replace(sql, "\n\t\tRETURNING", fits+"\n\t\tRETURNING", 1), append(args, sqlkit.StreamRows(b.Streams))
}

// streamsBack says which writes to streams have refused the commit.
func (b *commit) streamsBack() stmt {
	return stmt{sql: streamsMet, args: []any{sqlkit.StreamRows(b.Streams), uuid(b.Lease.Run), b.namespace}, rows: func(scan func(...any) error) error {
		var met string
		err := scan(&met)
		if err == nil && b.next {
			if refused := sqlkit.StreamsRefused(met); refused != nil {
				*b.res = store.CommitResult{Err: refused}
			}
		}
		return err
	}}
}
