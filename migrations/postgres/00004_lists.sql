-- Lists and counts by status read what they return, however many runs are final. The
-- indexes are built anew, which keeps writers of pawl.runs waiting.

-- +goose Up
-- By status, then by creation. The expressions keep what looks for runs by their ids, and
-- then at their status, away from it, whatever the planner believes of an empty table.
DROP INDEX pawl.runs_created;
CREATE INDEX runs_created ON pawl.runs ((namespace || ''), (status + 0), created_at, id);

-- What did not end well, by its end. A run that completes is not written to it.
CREATE INDEX runs_failed ON pawl.runs (namespace, status, finished_at, id) WHERE status >= 7;

-- +goose Down
DROP INDEX pawl.runs_failed;
DROP INDEX pawl.runs_created;
CREATE INDEX runs_created ON pawl.runs ((namespace || ''), created_at, id);
