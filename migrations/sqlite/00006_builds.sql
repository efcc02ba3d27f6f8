-- Builds: which one recorded a run's last step, and which one a run is pinned to.

-- +goose Up
ALTER TABLE runs ADD COLUMN pin TEXT NOT NULL DEFAULT '';  -- the build whose claims take the run; empty: those of any
ALTER TABLE runs ADD COLUMN pinned TEXT;                   -- the whole pin, with its reason: JSON
ALTER TABLE runs ADD COLUMN build TEXT;                    -- that recorded the last step, unless the last lease has
ALTER TABLE runs ADD COLUMN lease_build TEXT;              -- of the last lease
ALTER TABLE workers ADD COLUMN build TEXT NOT NULL DEFAULT '';

-- A claim meets no run that is pinned to another build.
DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, pin, priority, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4;
-- The unfinished runs of a build are counted, and listed in the order of their creation.
-- No index of the same columns has this condition: with finished_at IS NULL and bounds on the creation,
-- SQLite would choose runs_active.
CREATE INDEX runs_pinned ON runs (namespace, pin, created_at, id) WHERE pin <> '' AND status < 6;

-- +goose Down
DROP INDEX runs_pinned;
DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, priority, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4;
ALTER TABLE workers DROP COLUMN build;
ALTER TABLE runs DROP COLUMN lease_build;
ALTER TABLE runs DROP COLUMN build;
ALTER TABLE runs DROP COLUMN pinned;
ALTER TABLE runs DROP COLUMN pin;
