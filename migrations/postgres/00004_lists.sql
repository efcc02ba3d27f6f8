-- Lists and counts by status read what they return, however many runs are final.

-- +goose NO TRANSACTION
-- +goose Up
-- By status, then by creation. The expressions keep what looks for runs by their ids, and
-- then at their status, away from it, whatever the planner believes of an empty table.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_created_4 ON pawl.runs ((namespace || ''), (status + 0), created_at, id);

-- What did not end well, by its end. A run that completes is not written to it.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_failed ON pawl.runs (namespace, status, finished_at, id) WHERE status >= 7;

DROP INDEX pawl.runs_created;
ALTER INDEX pawl.runs_created_4 RENAME TO runs_created;

-- +goose Down
DROP INDEX pawl.runs_failed;
DROP INDEX pawl.runs_created;
CREATE INDEX runs_created ON pawl.runs ((namespace || ''), created_at, id);
