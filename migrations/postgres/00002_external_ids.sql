-- External ids that are held for as long as their run is kept, what a run was started
-- with, and listings by creation.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE pawl.runs ADD COLUMN IF NOT EXISTS reuse smallint NOT NULL DEFAULT 0, -- of the external id: 0 after the end, 1 never
    ADD COLUMN IF NOT EXISTS digest bytea;                                        -- of what the run was started with

-- Who holds an external id, and who has held one.
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS runs_external_2 ON pawl.runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND (status < 6 OR reuse = 1);
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_external_past_2 ON pawl.runs (namespace, external_id, suffix, created_at, id)
    WHERE external_id IS NOT NULL AND status >= 6 AND reuse = 0;

-- The expression keeps what looks for a run by its id away from it, whatever the planner
-- believes of an empty table.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_created ON pawl.runs ((namespace || ''), created_at, id);

DROP INDEX pawl.runs_external;
DROP INDEX pawl.runs_external_past;
ALTER INDEX pawl.runs_external_2 RENAME TO runs_external;
ALTER INDEX pawl.runs_external_past_2 RENAME TO runs_external_past;

-- +goose Down
DROP INDEX pawl.runs_created;
DROP INDEX pawl.runs_external;
DROP INDEX pawl.runs_external_past;
CREATE UNIQUE INDEX runs_external ON pawl.runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status < 6;
CREATE INDEX runs_external_past ON pawl.runs (namespace, external_id, suffix, created_at, id)
    WHERE external_id IS NOT NULL AND status >= 6;
ALTER TABLE pawl.runs DROP COLUMN digest, DROP COLUMN reuse;
