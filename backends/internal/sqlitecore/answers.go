package sqlitecore

import (
	"context"
	"encoding/hex"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

var (
	// giveAnswer: output, failure, now, run, signal. The statements before it have consumed the
	// signals of the commit.
	giveAnswer = `UPDATE signals SET answer=?, failure=?, answered_at=? WHERE run_id=? AND id=? AND consumed=1 AND answered_at IS NULL AND` + applied

	// readAnswers: ?1 the asks, each a run and a signal in hexadecimal, ?2 namespace, ?3 the limit in
	// bytes. The first answer fits whatever its size.
	readAnswers = `SELECT n, status, answered_at, fits, CASE WHEN fits THEN answer END, CASE WHEN fits THEN failure END
		FROM (SELECT j.key AS n, r.status, s.answered_at, s.answer, s.failure,
				sum(coalesce(octet_length(s.answer), 0)+coalesce(octet_length(s.failure), 0)) OVER w<=?3 OR count(s.answered_at) OVER w<=1 AS fits
			FROM json_each(?1) j CROSS JOIN runs r ON r.id=unhex(j.value->>0) AND r.namespace=?2
				CROSS JOIN signals s ON s.run_id=r.id AND s.id=unhex(j.value->>1)
			WINDOW w AS (ORDER BY j.key ROWS UNBOUNDED PRECEDING))`
)

// answer adds the statements that store the answers of a commit.
func (b *commit) answer(stmts []Stmt) []Stmt {
	run := b.Lease.Run[:]
	for i := range b.Answers {
		a := &b.Answers[i]
		stmts = append(stmts, Stmt{
			SQL: giveAnswer, Args: []any{blob(a.Output), failure(a.Failure), b.now, run, a.Signal[:], run, b.stamp}, Unneeded: b.missed,
		})
	}
	return stmts
}

// Answers implements store.Coordination.
func (c *Core) Answers(ctx context.Context, p store.AnswersParams) ([]store.AnswerResult, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	results := sqlkit.NoAnswers(&p)
	if len(results) == 0 {
		return results, ctx.Err()
	}
	asks := make([][2]string, len(p.Asks))
	for i := range p.Asks {
		asks[i] = [2]string{hex.EncodeToString(p.Asks[i].Run[:]), hex.EncodeToString(p.Asks[i].Signal[:])}
	}
	err := c.read(ctx, Stmt{SQL: readAnswers, Args: []any{sqlkit.JSON(asks), p.Namespace, sqlkit.AtMost(p.MaxBytes)}, Rows: sqlkit.AnswerRows(&p, results, db{c}.Blob)})
	if err != nil {
		return nil, err
	}
	return results, nil
}
