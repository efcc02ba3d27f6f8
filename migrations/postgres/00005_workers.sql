-- +goose Up
-- The pairs of queue and workflow that a worker serves, and whether it was asked for a
-- sign of life.
ALTER TABLE pawl.workers ADD COLUMN takes text NOT NULL DEFAULT 'null';   -- JSON: workflows by queue
ALTER TABLE pawl.workers ADD COLUMN answers bigint NOT NULL DEFAULT 0;    -- microseconds within which it answers; 0: it does not
ALTER TABLE pawl.workers ADD COLUMN asked_at bigint;                      -- NULL: heard of since

-- +goose Down
ALTER TABLE pawl.workers DROP COLUMN asked_at;
ALTER TABLE pawl.workers DROP COLUMN answers;
ALTER TABLE pawl.workers DROP COLUMN takes;
