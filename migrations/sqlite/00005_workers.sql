-- +goose Up
-- The pairs of queue and workflow that a worker serves, and whether it was asked for a
-- sign of life.
ALTER TABLE workers ADD COLUMN takes TEXT NOT NULL DEFAULT 'null';  -- JSON: workflows by queue
ALTER TABLE workers ADD COLUMN answers INTEGER NOT NULL DEFAULT 0;  -- microseconds within which it answers; 0: it does not
ALTER TABLE workers ADD COLUMN asked_at INTEGER;                    -- NULL: heard of since
CREATE INDEX workers_asked ON workers (namespace, id) WHERE asked_at IS NOT NULL;

-- +goose Down
DROP INDEX workers_asked;
ALTER TABLE workers DROP COLUMN asked_at;
ALTER TABLE workers DROP COLUMN answers;
ALTER TABLE workers DROP COLUMN takes;
