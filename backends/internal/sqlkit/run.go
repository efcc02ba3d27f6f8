package sqlkit

import "github.com/pawlhq/pawl/store"

// RunColumns returns the columns of a run, r, that a [RunReader] reads. The large ones are
// expressions: readers that do not need one pass NULL.
func RunColumns(failure, input, meta, output string) string {
	return runHead + failure + runPolicy + input + `, ` + meta + `, ` + output
}

var runPolicy = `, r.reuse, r.digest, r.pinned, ` + RunBuild + Text(`, r.under, CASE WHEN r.status<{final} THEN r.step_under END, r.tags, `)

// RunBuild is the build that recorded the last step of a run, r: under the last lease, if its
// holder has recorded one, or else under an earlier lease.
var RunBuild = Text(`CASE WHEN (r.parts & {partRecorded})<>0 THEN r.lease_build ELSE r.build END`)

var runHead = Text(`r.id, r.namespace, r.workflow, r.queue, r.status, r.priority, r.external_id, r.suffix, r.parent, r.grp, r.ordinal, r.on_close,
	r.attempt, r.crashes, r.generation, r.epoch, CASE WHEN r.leased OR (r.parts & {partEnded})<>0 THEN r.worker END, r.events, r.pausing, r.visible_at, r.created_at,
	r.started_at, r.finished_at, r.deadline, r.forked_from, `)

// RunReader reads rows of [RunColumns] one after the other. It allocates its destinations once for
// all rows.
type RunReader struct {
	run                       store.Run
	status, onClose, priority int16
	reuse                     int16
	dests                     []any
}

// NewRunReader returns a reader of rows that have more columns after those of a run. blob is
// [DB.Blob].
func NewRunReader(blob func(*[]byte) any, more ...any) *RunReader {
	w := &RunReader{}
	r := &w.run
	w.dests = append([]any{
		ID(&r.ID), &r.Namespace, &r.Workflow, &r.Queue, &w.status, &w.priority, TextOrNull(&r.ExternalID), &r.Suffix,
		ID(&r.Parent), TextOrNull(&r.Group), &r.Ordinal, &w.onClose,
		&r.Attempt, &r.Crashes, &r.Generation, &r.Epoch, TextOrNull(&r.Worker), &r.Events, &r.Pausing, Time(&r.VisibleAt),
		Time(&r.CreatedAt), Time(&r.StartedAt), Time(&r.FinishedAt), Time(&r.Deadline), ID(&r.ForkedFrom),
		Failure(&r.Failure), &w.reuse, blob(&r.Digest), Pin(&r.Pin), TextOrNull(&r.Build), Uses(&r.Under), Uses(&r.StepUnder), TagsOf(&r.Tags), blob(&r.Input), blob(&r.Meta), blob(&r.Output),
	}, more...)
	return w
}

// Read reads the next row.
func (w *RunReader) Read(scan Scan) (store.Run, error) {
	w.run = store.Run{} // no run shares a payload with the one before
	err := scan(w.dests...)
	w.run.Status, w.run.OnClose, w.run.Priority, w.run.Reuse = store.Status(w.status), store.ClosePolicy(w.onClose), int(w.priority), store.Reuse(w.reuse)
	return w.run, err
}
