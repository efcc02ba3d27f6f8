package postgres

import (
	"context"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	// giveAnswers: $1 now, $2 run, $3 stamp, $4 to $6 the columns of a. The statements before it have
	// consumed the signals of the commit.
	giveAnswers = `UPDATE pawl.signals s SET answer=a.answer, failure=a.failure, answered_at=` + now + `
		FROM unnest($4::uuid[], $5::bytea[], $6::text[]) AS a(id, answer, failure)
		WHERE s.run_id=$2::uuid AND s.id = ANY(ARRAY[a.id]) AND s.consumed AND s.answered_at IS NULL AND` + applied23

	// readAnswers: $1 and $2 the runs and signals of the asks, $3 namespace, $4 the limit in bytes. The
	// first answer fits whatever its size. The arrays of one element keep the planner to the primary
	// keys.
	readAnswers = `SELECT n-1, status, answered_at, fits, CASE WHEN fits THEN answer END, CASE WHEN fits THEN failure END
		FROM (SELECT a.n, r.status, s.answered_at, s.answer, s.failure,
				sum(coalesce(octet_length(s.answer), 0)+coalesce(octet_length(s.failure), 0)) OVER w<=$4::bigint OR count(s.answered_at) OVER w<=1 AS fits
			FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS a(run, signal, n)
				JOIN pawl.runs r ON r.id = ANY(ARRAY[a.run]) AND r.namespace=$3::text
				JOIN pawl.signals s ON s.run_id = ANY(ARRAY[a.run]) AND s.id = ANY(ARRAY[a.signal])
			WINDOW w AS (ORDER BY a.n ROWS UNBOUNDED PRECEDING)) q`
)

// answer adds the statements that store the answers of a commit.
func (b *commit) answer(stmts []stmt) []stmt {
	if len(b.Answers) == 0 {
		return stmts
	}
	for _, part := range perStatement(b.Answers, (*store.Answer).Size) {
		n := len(part)
		ids := make([]store.ID, n)
		for i := range part {
			ids[i] = part[i].Signal
		}
		stmts = append(stmts, stmt{sql: giveAnswers, args: []any{
			b.setnow, uuid(b.Lease.Run), b.stamp, uuids(ids), payloads(n, func(i int) []byte { return part[i].Output }),
			column(n, nil, func(i int) *string { return failure(part[i].Failure) }),
		}})
	}
	return stmts
}

// Answers implements store.Coordination.
func (s *Store) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	results := sqlkit.NoAnswers(&p)
	if len(results) == 0 {
		return results, ctx.Err()
	}
	runs, signals := make([]store.ID, len(p.Asks)), make([]store.ID, len(p.Asks))
	for i, a := range p.Asks {
		runs[i], signals[i] = a.Run, a.Signal
	}
	err := s.read(ctx, stmt{sql: readAnswers, args: []any{uuids(runs), uuids(signals), p.Namespace, sqlkit.AtMost(p.MaxBytes)}, rows: sqlkit.AnswerRows(&p, results, db{}.Blob)})
	if err != nil {
		return nil, err
	}
	return results, nil
}
