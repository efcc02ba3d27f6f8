package sqlitecore

import (
	"slices"

	"github.com/pawlhq/pawl/backends/internal/sqlkit"
	"github.com/pawlhq/pawl/store"
)

// A start with a signal creates the run unless another one holds the external id, or one that has held
// it has had the signal. Then it sends the signal to the run that holds the external id, whichever
// that is.
var (
	startRun    = insertPending + `SELECT ` + insertMarks + ` WHERE true` + unheard + ` ON CONFLICT DO NOTHING`
	toStarted   = sqlkit.Text(`(SELECT id FROM runs WHERE namespace=? AND external_id=? AND suffix=? AND external_id IS NOT NULL AND status<{final} AND workflow=?)`)
	startSignal = insertSignal + toStarted + unheard + ` ON CONFLICT DO NOTHING`
	startEvent  = sqlkit.Text(signalEvent + toStarted + ` RETURNING id, queue, status={sleeping} AND visible_at<=?`)

	// startFate reads the run that is in the way of a start with a signal: one that has had the signal
	// (rank 0), the holder of the external id, or the run with the same id.
	startFate = startMet(`0`, `namespace=? AND external_id=? AND suffix=? AND `+holds+` AND `+hadSignal) +
		` UNION ALL ` + startMet(`0`, `namespace=? AND external_id=? AND suffix=? AND `+held+` AND `+hadSignal) +
		` UNION ALL ` + startMet(`1`, `namespace=? AND external_id=? AND suffix=? AND `+holds) +
		` UNION ALL ` + startMet(`2`, `id=?`) + ` ORDER BY 1, 6 DESC, 2 DESC LIMIT 1`
)

func startMet(rank, where string) string {
	return `SELECT ` + rank + `, id, namespace, workflow, status, created_at FROM runs WHERE ` + where
}

// signals reports whether one of the runs of a call has a signal.
func signals(p *store.CreateParams, which []int) bool {
	return slices.ContainsFunc(which, func(i int) bool { return p.Runs[i].Signal != nil })
}

// startSignaled adds the statements of a start with a signal.
func startSignaled(stmts []Stmt, namespace string, r *store.NewRun, res *store.CreateResult, made *inserted, m moment, h *sqlkit.Hints) []Stmt {
	pending, sig := insertArgs(namespace, r, store.ID{}, m), r.Signal
	target := []any{namespace, r.ExternalID, r.Suffix}
	heard := slices.Concat(target, []any{sig.ID[:]})
	active := slices.Concat(target, []any{r.Workflow})
	stored := false
	stmts = append(stmts, Stmt{SQL: startRun, Args: slices.Concat(pending, heard), Affected: &made.pending})
	if len(r.Input) > inlineInput {
		stmts = append(stmts, Stmt{SQL: largeInput, Args: []any{r.Input, r.ID[:], namespace}, Unneeded: func() bool { return made.pending == 0 }})
	}
	return append(stmts,
		Stmt{SQL: startSignal, Args: slices.Concat([]any{sig.ID[:], sig.Name, blob(sig.Payload), m.now, namespace}, active, heard)},
		Stmt{
			SQL: startEvent, Args: slices.Concat([]any{int64(store.WakeSignal), m.now, m.now}, active, []any{m.now}),
			Rows: func(scan func(...any) error) error {
				stored = true
				if made.pending == 1 { // hinted as a new run
					var id store.ID
					var queue string
					var due bool
					return scan(sqlkit.ID(&id), &queue, &due)
				}
				var id store.ID
				err := h.WokenRow(scan, &id)
				*res, _ = r.Reaches(store.Found{ID: id, Workflow: r.Workflow, Holds: true})
				return err
			},
		},
		Stmt{
			SQL: startFate, Args: slices.Concat(target, []any{sig.ID[:]}, target, []any{sig.ID[:]}, target, []any{r.ID[:]}),
			Unneeded: func() bool { return stored },
			Rows: func(scan func(...any) error) error {
				var met sqlkit.StartMet
				if err := met.Scan(scan); err != nil || stored {
					return err
				}
				*res = met.By(namespace, r)
				return nil
			},
		})
}
