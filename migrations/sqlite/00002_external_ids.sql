-- External ids that are held for as long as their run is kept, what a run was started
-- with, and listings by creation.

-- +goose Up
ALTER TABLE runs ADD COLUMN reuse INTEGER NOT NULL DEFAULT 0; -- of the external id: 0 after the end, 1 never
ALTER TABLE runs ADD COLUMN digest BLOB;                      -- of what the run was started with

-- Who holds an external id, and who has held one.
DROP INDEX runs_external;
DROP INDEX runs_external_past;
CREATE UNIQUE INDEX runs_external ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND (status < 6 OR reuse = 1);
CREATE INDEX runs_external_past ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status >= 6 AND reuse = 0;

CREATE INDEX runs_created ON runs (namespace, created_at, id);

-- +goose Down
DROP INDEX runs_created;
DROP INDEX runs_external;
DROP INDEX runs_external_past;
CREATE UNIQUE INDEX runs_external ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status < 6;
CREATE INDEX runs_external_past ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status >= 6;
ALTER TABLE runs DROP COLUMN digest;
ALTER TABLE runs DROP COLUMN reuse;
