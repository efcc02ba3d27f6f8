-- +goose Up
-- What people did. It outlives the runs that it was done to.
CREATE TABLE actions (
    id        BLOB    NOT NULL PRIMARY KEY,
    namespace TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    actor     TEXT    NOT NULL,               -- user@host
    verb      TEXT    NOT NULL,
    target    TEXT    NOT NULL,
    run       BLOB,
    details   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX actions_at ON actions (namespace, at);
CREATE INDEX actions_run ON actions (run, at) WHERE run IS NOT NULL;

-- +goose Down
DROP TABLE actions;
