-- Pawl's schema for SQLite and Turso.
--
-- Times are microseconds since 1970 in UTC; ids are the 16 bytes of a UUID.
-- run_list below shows runs in a readable form.
--
-- Run status: 1 pending, 2 running, 3 sleeping, 4 paused, 5 canceling,
-- 6 completed, 7 failed, 8 canceled (6 and above are final).

-- +goose Up
CREATE TABLE runs (
    id          BLOB    NOT NULL PRIMARY KEY,
    namespace   TEXT    NOT NULL,
    workflow    TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    status      INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    visible_at  INTEGER,                      -- when it may be claimed; kept while paused; NULL: never, or by an event
    due_at      INTEGER,                      -- visible_at as the present claim found it
    paused_from INTEGER NOT NULL DEFAULT 0,   -- status before the pause
    epoch       INTEGER NOT NULL DEFAULT 0,
    seq         INTEGER NOT NULL DEFAULT 0,   -- last commit applied under this epoch
    stamp       INTEGER NOT NULL DEFAULT 0,   -- marks the write that changed the row last, for later statements of that write
    worker      TEXT,                         -- who holds the lease, or held the last one
    leased      INTEGER NOT NULL DEFAULT 0,
    attempt     INTEGER NOT NULL DEFAULT 1,
    crashes     INTEGER NOT NULL DEFAULT 0,
    generation  INTEGER NOT NULL DEFAULT 0,
    events      INTEGER NOT NULL DEFAULT 0,
    pausing     INTEGER NOT NULL DEFAULT 0,
    wakes       INTEGER NOT NULL DEFAULT 0,   -- of a sleep: 1 signal, 2 state, 4 children
    parts       INTEGER NOT NULL DEFAULT 0,   -- may have: 1 steps, 2 state, 4 signals, 8 groups, 16 large input, 32 children
    external_id TEXT,
    suffix      TEXT    NOT NULL DEFAULT '',
    parent      BLOB,
    grp         TEXT,                         -- the parent's group that counts this child
    ordinal     INTEGER NOT NULL DEFAULT 0,
    on_close    INTEGER NOT NULL DEFAULT 0,   -- when the parent is final: 0 cancel, 1 abandon
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    deadline    INTEGER,
    forked_from BLOB,
    input       BLOB,                         -- small ones; others are in large_inputs
    meta        BLOB,
    output      BLOB,
    failure     TEXT                          -- JSON
) STRICT, WITHOUT ROWID;

-- What is final or paused is not in it, so that a claim never meets it. It ends
-- with the status because SQLite looks at that again.
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, priority, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4;
CREATE UNIQUE INDEX runs_external ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status < 6;
CREATE INDEX runs_external_past ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status >= 6;
CREATE INDEX runs_parent ON runs (parent, grp, ordinal) WHERE parent IS NOT NULL;
-- The children that follow their parent, also among a million that are final.
CREATE INDEX runs_open_children ON runs (parent) WHERE parent IS NOT NULL AND status < 6;
CREATE INDEX runs_finished ON runs (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- SQLite writes a whole row at each update, so large inputs stand apart.
CREATE TABLE large_inputs (
    run_id BLOB NOT NULL PRIMARY KEY,
    data   BLOB NOT NULL
) STRICT;

-- Step kind: 1 function, 2 sleep, 3 signal, 4 child, 5 map, 6 generator, 7 value, 8 state.
-- Step status: 1 pending, 2 running, 3 completed, 4 failed.
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
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
    run_id     BLOB    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB,
    version    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    run_id        BLOB    NOT NULL,
    name          TEXT    NOT NULL,
    total         INTEGER NOT NULL DEFAULT 0,
    open          INTEGER NOT NULL DEFAULT 0,
    completed     INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    canceled      INTEGER NOT NULL DEFAULT 0,
    armed         INTEGER,                    -- epoch of the parent's sleep that awaits this group
    wake_open     INTEGER NOT NULL DEFAULT 0,
    wake_failures INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

-- Consumed signals leave their id here, so that sending one again is noticed.
CREATE TABLE signals (
    run_id   BLOB    NOT NULL,
    id       BLOB    NOT NULL,
    pos      INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    payload  BLOB,
    sent_at  INTEGER NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX signals_unread ON signals (run_id, pos) WHERE consumed = 0;

CREATE TABLE workers (
    namespace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    host       TEXT    NOT NULL,
    pid        INTEGER NOT NULL,
    queues     TEXT    NOT NULL,              -- JSON
    workflows  TEXT    NOT NULL,              -- JSON
    labels     TEXT    NOT NULL,              -- JSON
    slots      INTEGER NOT NULL,
    limits     TEXT    NOT NULL,              -- JSON
    status     INTEGER NOT NULL,              -- 1 online, 2 draining
    ttl        INTEGER NOT NULL,              -- microseconds
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    PRIMARY KEY (namespace, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflows (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    meta       BLOB,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- One of queue and workflow is empty.
CREATE TABLE paused (
    namespace TEXT    NOT NULL,
    queue     TEXT    NOT NULL,
    workflow  TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (namespace, queue, workflow)
) STRICT, WITHOUT ROWID;

CREATE TABLE locks (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    owner     TEXT    NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

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
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (namespace, next_at) WHERE next_at IS NOT NULL AND paused = 0;

CREATE TABLE firings (
    namespace TEXT    NOT NULL,
    schedule  TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    fired_at  INTEGER NOT NULL,
    run       BLOB,                           -- NULL: skipped
    PRIMARY KEY (namespace, schedule, at)
) STRICT, WITHOUT ROWID;

CREATE VIEW run_list AS
SELECT lower(hex(id)) AS id, namespace, workflow, queue,
       CASE status WHEN 1 THEN 'pending' WHEN 2 THEN 'running' WHEN 3 THEN 'sleeping' WHEN 4 THEN 'paused'
                   WHEN 5 THEN 'canceling' WHEN 6 THEN 'completed' WHEN 7 THEN 'failed' ELSE 'canceled' END AS status,
       priority, external_id, iif(leased, worker, NULL) AS worker, attempt, crashes,
       datetime(visible_at / 1000000, 'unixepoch') AS visible_at,
       datetime(created_at / 1000000, 'unixepoch') AS created_at,
       datetime(finished_at / 1000000, 'unixepoch') AS finished_at,
       failure ->> 'message' AS failure
FROM runs;

-- +goose Down
DROP VIEW run_list;
DROP TABLE firings;
DROP TABLE schedules;
DROP TABLE locks;
DROP TABLE paused;
DROP TABLE workflows;
DROP TABLE workers;
DROP TABLE signals;
DROP TABLE groups;
DROP TABLE state;
DROP TABLE steps;
DROP TABLE large_inputs;
DROP TABLE runs;
