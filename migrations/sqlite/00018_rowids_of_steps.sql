-- Steps have rowids; see migration 17.

-- +goose Up
CREATE TABLE steps_moved AS SELECT run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at
    FROM steps;
DROP TABLE steps;
CREATE TABLE steps (
    run_id      BLOB    NOT NULL,
    branch      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    occurrence  INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    idx         INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    output      BLOB,
    failure     TEXT,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    due_at      INTEGER,
    PRIMARY KEY (run_id, branch, name, occurrence)
) STRICT;
INSERT INTO steps (run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at)
    SELECT run_id, branch, name, occurrence, kind, status, position, idx, attempt, epoch, output, failure, started_at, finished_at, due_at
    FROM steps_moved ORDER BY rowid;
DROP TABLE steps_moved;

-- +goose Down
-- A table has the same columns in both forms.
SELECT 1;
