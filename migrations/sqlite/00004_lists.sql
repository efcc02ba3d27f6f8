-- Lists and counts by status read what they return, however many runs are final.

-- +goose Up
-- Runs that are not final, by creation. A claim does not write to it: its condition is
-- on a column that only the end changes.
DROP INDEX runs_created;
CREATE INDEX runs_active ON runs (namespace, created_at, id) WHERE finished_at IS NULL;
-- Final ones by status, then by creation.
CREATE INDEX runs_ended ON runs (namespace, status, created_at, id) WHERE finished_at IS NOT NULL;

-- What did not end well, by its end. A run that completes is not written to it.
CREATE INDEX runs_failed ON runs (namespace, status, finished_at, id) WHERE status >= 7;

-- +goose Down
DROP INDEX runs_failed;
DROP INDEX runs_ended;
DROP INDEX runs_active;
CREATE INDEX runs_created ON runs (namespace, created_at, id);
