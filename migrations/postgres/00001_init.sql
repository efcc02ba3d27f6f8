-- Pawl's schema for PostgreSQL 15 and later. Another schema than pawl is had by
-- replacing "pawl." throughout.
--
-- Times are microseconds since 1970 in UTC. run_list below shows runs in a
-- readable form.
--
-- Run status: 1 pending, 2 running, 3 sleeping, 4 paused, 5 canceling,
-- 6 completed, 7 failed, 8 canceled (6 and above are final).

-- +goose Up
CREATE TABLE pawl.runs (
    id          uuid     NOT NULL PRIMARY KEY,
    visible_at  bigint,                        -- when it may be claimed; kept while paused; NULL: never, or by an event
    due_at      bigint,                        -- visible_at as the present claim found it
    epoch       bigint   NOT NULL DEFAULT 0,
    seq         bigint   NOT NULL DEFAULT 0,   -- last commit applied under this epoch
    stamp       bigint   NOT NULL DEFAULT 0,   -- marks the write that changed the row last, for later statements of that write
    events      bigint   NOT NULL DEFAULT 0,
    ordinal     bigint   NOT NULL DEFAULT 0,
    created_at  bigint   NOT NULL,
    started_at  bigint,
    finished_at bigint,
    deadline    bigint,
    attempt     integer  NOT NULL DEFAULT 1,
    crashes     integer  NOT NULL DEFAULT 0,
    generation  integer  NOT NULL DEFAULT 0,
    status      smallint NOT NULL,
    priority    smallint NOT NULL,
    paused_from smallint NOT NULL DEFAULT 0,   -- status before the pause
    wakes       smallint NOT NULL DEFAULT 0,   -- of a sleep: 1 signal, 2 state, 4 children
    parts       smallint NOT NULL DEFAULT 0,   -- may have: 1 steps, 2 state, 4 signals, 8 groups, 32 children
    on_close    smallint NOT NULL DEFAULT 0,   -- when the parent is final: 0 cancel, 1 abandon
    leased      boolean  NOT NULL DEFAULT false,
    pausing     boolean  NOT NULL DEFAULT false,
    namespace   text     COLLATE "C" NOT NULL,
    workflow    text     COLLATE "C" NOT NULL,
    queue       text     COLLATE "C" NOT NULL,
    worker      text     COLLATE "C",          -- who holds the lease, or held the last one
    external_id text     COLLATE "C",
    suffix      text     COLLATE "C" NOT NULL DEFAULT '',
    parent      uuid,
    grp         text     COLLATE "C",          -- the parent's group that counts this child
    forked_from uuid,
    input       bytea,
    meta        bytea,
    output      bytea,
    failure     text                           -- JSON
) WITH (fillfactor = 50, toast_tuple_target = 512,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);

-- What is final or paused is not in it, so that a claim never meets it.
CREATE INDEX runs_claim ON pawl.runs (namespace, queue, workflow, priority, visible_at, id)
    WHERE visible_at IS NOT NULL AND status <> 4;
CREATE UNIQUE INDEX runs_external ON pawl.runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status < 6;
CREATE INDEX runs_external_past ON pawl.runs (namespace, external_id, suffix, created_at, id)
    WHERE external_id IS NOT NULL AND status >= 6;
CREATE INDEX runs_parent ON pawl.runs (parent, grp, ordinal) WHERE parent IS NOT NULL;
-- The children that follow their parent, also among a million that are final.
CREATE INDEX runs_following ON pawl.runs (uuid_send(parent)) WHERE parent IS NOT NULL AND on_close = 0 AND status < 6;
CREATE INDEX runs_finished ON pawl.runs (namespace, finished_at) WHERE finished_at IS NOT NULL;

-- Step kind: 1 function, 2 sleep, 3 signal, 4 child, 5 map, 6 generator, 7 value, 8 state.
-- Step status: 1 pending, 2 running, 3 completed, 4 failed.
CREATE TABLE pawl.steps (
    run_id      uuid     NOT NULL,
    position    bigint   NOT NULL,
    epoch       bigint   NOT NULL,
    started_at  bigint   NOT NULL,
    finished_at bigint,
    due_at      bigint,
    occurrence  integer  NOT NULL,
    idx         integer  NOT NULL,
    attempt     integer  NOT NULL,
    kind        smallint NOT NULL,
    status      smallint NOT NULL,
    branch      text     COLLATE "C" NOT NULL,
    name        text     COLLATE "C" NOT NULL,
    output      bytea,
    failure     text,
    PRIMARY KEY (run_id, branch, name, occurrence)
);

CREATE TABLE pawl.state (
    run_id     uuid   NOT NULL,
    key        text   COLLATE "C" NOT NULL,
    value      bytea,
    version    bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (run_id, key)
);

CREATE TABLE pawl.groups (
    run_id        uuid   NOT NULL,
    name          text   COLLATE "C" NOT NULL,
    total         bigint NOT NULL DEFAULT 0,
    open          bigint NOT NULL DEFAULT 0,
    completed     bigint NOT NULL DEFAULT 0,
    failed        bigint NOT NULL DEFAULT 0,
    canceled      bigint NOT NULL DEFAULT 0,
    armed         bigint,                      -- epoch of the parent's sleep that awaits this group
    wake_open     bigint NOT NULL DEFAULT 0,
    wake_failures bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, name)
) WITH (fillfactor = 70);

-- Consumed signals leave their id here, so that sending one again is noticed.
-- Senders lock the run first, so pos is in the order of sending.
CREATE TABLE pawl.signals (
    run_id   uuid    NOT NULL,
    id       uuid    NOT NULL,
    pos      bigint  GENERATED ALWAYS AS IDENTITY,
    name     text    COLLATE "C" NOT NULL,
    payload  bytea,
    sent_at  bigint  NOT NULL,
    consumed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (run_id, id)
);
CREATE INDEX signals_unread ON pawl.signals (run_id, pos) WHERE NOT consumed;

-- The lanes in which a run was ever made: a claim seeks in each.
CREATE TABLE pawl.lanes (
    namespace text     COLLATE "C" NOT NULL,
    queue     text     COLLATE "C" NOT NULL,
    workflow  text     COLLATE "C" NOT NULL,
    priority  smallint NOT NULL,
    PRIMARY KEY (namespace, queue, workflow, priority)
);

CREATE TABLE pawl.workers (
    namespace  text   COLLATE "C" NOT NULL,
    id         text   COLLATE "C" NOT NULL,
    host       text   NOT NULL,
    pid        bigint NOT NULL,
    queues     text   NOT NULL,                -- JSON
    workflows  text   NOT NULL,                -- JSON
    labels     text   NOT NULL,                -- JSON
    slots      bigint NOT NULL,
    limits     text   NOT NULL,                -- JSON
    status     smallint NOT NULL,              -- 1 online, 2 draining
    ttl        bigint NOT NULL,                -- microseconds
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    PRIMARY KEY (namespace, id)
) WITH (fillfactor = 50);

CREATE TABLE pawl.workflows (
    namespace  text   COLLATE "C" NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    queue      text   COLLATE "C" NOT NULL,
    meta       bytea,
    updated_at bigint NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- One of queue and workflow is empty.
CREATE TABLE pawl.paused (
    namespace text   COLLATE "C" NOT NULL,
    queue     text   COLLATE "C" NOT NULL,
    workflow  text   COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    PRIMARY KEY (namespace, queue, workflow)
);

CREATE TABLE pawl.locks (
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    owner     text   COLLATE "C" NOT NULL,
    until     bigint NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

CREATE TABLE pawl.schedules (
    namespace  text    COLLATE "C" NOT NULL,
    name       text    COLLATE "C" NOT NULL,
    workflow   text    COLLATE "C" NOT NULL,
    queue      text    COLLATE "C" NOT NULL,
    spec       text    NOT NULL,
    input      bytea,
    meta       bytea,
    paused     boolean NOT NULL,
    next_at    bigint,
    last_at    bigint,
    created_at bigint  NOT NULL,
    updated_at bigint  NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX schedules_due ON pawl.schedules (namespace, next_at) WHERE next_at IS NOT NULL AND NOT paused;

CREATE TABLE pawl.firings (
    namespace text   COLLATE "C" NOT NULL,
    schedule  text   COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    fired_at  bigint NOT NULL,
    run       uuid,                            -- NULL: skipped
    PRIMARY KEY (namespace, schedule, at)
);

CREATE VIEW pawl.run_list AS
SELECT id, namespace, workflow, queue,
       (ARRAY['pending','running','sleeping','paused','canceling','completed','failed','canceled'])[status] AS status,
       priority, external_id, CASE WHEN leased THEN worker END AS worker, attempt, crashes,
       to_timestamp(visible_at / 1e6) AS visible_at,
       to_timestamp(created_at / 1e6) AS created_at,
       to_timestamp(finished_at / 1e6) AS finished_at,
       failure
FROM pawl.runs;

-- +goose Down
DROP VIEW pawl.run_list;
DROP TABLE pawl.firings, pawl.schedules, pawl.locks, pawl.paused, pawl.workflows, pawl.workers, pawl.lanes,
    pawl.signals, pawl.groups, pawl.state, pawl.steps, pawl.runs;
