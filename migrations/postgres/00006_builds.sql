-- Builds: which one recorded a run's last step, and which one a run is pinned to.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE pawl.runs
    ADD COLUMN IF NOT EXISTS pin text COLLATE "C" NOT NULL DEFAULT '',  -- the build whose claims take the run; empty: those of any
    ADD COLUMN IF NOT EXISTS pinned text,                               -- the whole pin, with its reason: JSON
    ADD COLUMN IF NOT EXISTS build text COLLATE "C",                    -- that recorded the last step, unless the last lease has
    ADD COLUMN IF NOT EXISTS lease_build text COLLATE "C";              -- of the last lease

-- The unfinished runs of a build are counted, and listed in the order of their creation.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_pinned ON pawl.runs (namespace, pin, created_at, id) WHERE pin <> '' AND status < 6;

ALTER TABLE pawl.workers ADD COLUMN IF NOT EXISTS build text COLLATE "C" NOT NULL DEFAULT '';

-- A claim meets no run that is pinned to another build.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_claim_6 ON pawl.runs (namespace, queue, workflow, pin, priority, visible_at, id)
    WHERE visible_at IS NOT NULL AND status <> 4;

DROP INDEX pawl.runs_claim;
ALTER INDEX pawl.runs_claim_6 RENAME TO runs_claim;

-- +goose Down
DROP INDEX pawl.runs_pinned;
DROP INDEX pawl.runs_claim;
CREATE INDEX runs_claim ON pawl.runs (namespace, queue, workflow, priority, visible_at, id)
    WHERE visible_at IS NOT NULL AND status <> 4;
ALTER TABLE pawl.workers DROP COLUMN build;
ALTER TABLE pawl.runs DROP COLUMN lease_build;
ALTER TABLE pawl.runs DROP COLUMN build;
ALTER TABLE pawl.runs DROP COLUMN pinned;
ALTER TABLE pawl.runs DROP COLUMN pin;
