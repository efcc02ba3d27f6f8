-- Debounce: starts that replace what a run was started with.

-- +goose Up
-- The last run that was created with a key.
CREATE TABLE debounces (
    namespace TEXT NOT NULL,
    workflow  TEXT NOT NULL,
    key       TEXT NOT NULL,
    run_id    BLOB NOT NULL,
    PRIMARY KEY (namespace, workflow, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX debounces_run ON debounces (run_id);

-- The starts that have replaced, for as long as they are known.
CREATE TABLE debounced_starts (
    namespace TEXT    NOT NULL,
    id        BLOB    NOT NULL, -- of the start
    run_id    BLOB    NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX debounced_starts_run ON debounced_starts (run_id, at);

-- +goose Down
DROP TABLE debounced_starts;
DROP TABLE debounces;
