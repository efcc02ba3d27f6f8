-- Signals, state, items of streams and schedules have rowids.
--
-- SQLite compares the keys of a table without rowids by reading whole rows, with their payloads: a search in
-- such a table reads large payloads of rows that it is not about. So tables with payloads have rowids, and
-- their primary keys are indexes.

-- +goose Up
CREATE TABLE signals_moved AS SELECT run_id, id, pos, name, payload, sent_at, consumed, answered_at, answer, failure
    FROM signals;
DROP TABLE signals;
CREATE TABLE signals (
    run_id   BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    pos      INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    payload  BLOB,
    sent_at  INTEGER NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    answered_at INTEGER,     -- when the run answered it; NULL: it has not
    answer   BLOB,
    failure  TEXT,
    PRIMARY KEY (run_id, id)
) STRICT;
INSERT INTO signals (run_id, id, pos, name, payload, sent_at, consumed, answered_at, answer, failure)
    SELECT run_id, id, pos, name, payload, sent_at, consumed, answered_at, answer, failure
    FROM signals_moved ORDER BY rowid;
DROP TABLE signals_moved;

CREATE INDEX signals_unread ON signals (run_id, pos) WHERE consumed = 0;

CREATE TABLE state_moved AS SELECT run_id, key, value, version, updated_at
    FROM state;
DROP TABLE state;
CREATE TABLE state (
    run_id     BLOB    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, key)
) STRICT;
INSERT INTO state (run_id, key, value, version, updated_at)
    SELECT run_id, key, value, version, updated_at
    FROM state_moved ORDER BY rowid;
DROP TABLE state_moved;

CREATE TABLE stream_items_moved AS SELECT run_id, position, stream, branch, step, occurrence, generation, epoch, attempt, number, reset, at, items, bytes, payload
    FROM stream_items;
DROP TABLE stream_items;
CREATE TABLE stream_items (
    run_id     BLOB    NOT NULL,
    position   INTEGER NOT NULL, -- increases in the run, over all of its streams
    stream     TEXT    NOT NULL,
    branch     TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    occurrence INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    number     INTEGER NOT NULL, -- within the attempt, from 1
    reset      INTEGER NOT NULL, -- 1: the first item of an attempt that has superseded another one
    at         INTEGER NOT NULL,
    items      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    payload    BLOB,
    PRIMARY KEY (run_id, position)
) STRICT;
INSERT INTO stream_items (run_id, position, stream, branch, step, occurrence, generation, epoch, attempt, number, reset, at, items, bytes, payload)
    SELECT run_id, position, stream, branch, step, occurrence, generation, epoch, attempt, number, reset, at, items, bytes, payload
    FROM stream_items_moved ORDER BY rowid;
DROP TABLE stream_items_moved;

CREATE UNIQUE INDEX stream_items_writer ON stream_items (run_id, stream, branch, step, occurrence, generation, epoch, attempt, number);

CREATE TABLE schedules_moved AS SELECT namespace, name, workflow, queue, spec, input, meta, paused, next_at, last_at, created_at, updated_at
    FROM schedules;
DROP TABLE schedules;
CREATE TABLE schedules (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    spec       TEXT    NOT NULL,
    input      BLOB,
    meta       BLOB,
    paused     INTEGER NOT NULL,
    next_at    INTEGER,
    last_at    INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;
INSERT INTO schedules (namespace, name, workflow, queue, spec, input, meta, paused, next_at, last_at, created_at, updated_at)
    SELECT namespace, name, workflow, queue, spec, input, meta, paused, next_at, last_at, created_at, updated_at
    FROM schedules_moved ORDER BY rowid;
DROP TABLE schedules_moved;

CREATE INDEX schedules_due ON schedules (namespace, next_at) WHERE next_at IS NOT NULL AND paused = 0;

-- +goose Down
-- A table has the same columns in both forms.
SELECT 1;
