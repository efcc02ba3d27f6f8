-- Runs have rowids; see migration 17.

-- +goose Up
CREATE TABLE runs_moved AS SELECT id, namespace, workflow, queue, status, priority, visible_at, due_at, paused_from, epoch, seq, stamp, worker, leased, attempt, crashes,
    generation, events, pausing, wakes, parts, external_id, suffix, parent, grp, ordinal, on_close, created_at, started_at, finished_at, deadline,
    forked_from, input, meta, output, failure, reuse, digest, pin, pinned, build, lease_build, under, step_under, drawn, limited, tags
    FROM runs;
DROP TABLE runs;
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
    failure     TEXT,                         -- JSON
    reuse       INTEGER NOT NULL DEFAULT 0,   -- of the external id: 0 after the end, 1 never
    digest      BLOB,                         -- of what the run was started with
    pin         TEXT    NOT NULL DEFAULT '',  -- the build whose claims take the run; empty: those of any
    pinned      TEXT,                         -- the whole pin, with its reason: JSON
    build       TEXT,                         -- that recorded the last step, unless the last lease has
    lease_build TEXT,                         -- of the last lease
    under       TEXT,                         -- the limits of the run: JSON, [[limit, key, tokens], ...]; NULL: none
    step_under  TEXT,                         -- those of the step that it waits for or executes
    drawn       INTEGER NOT NULL DEFAULT 0,   -- the attempt has taken the tokens of the run's limits
    flow        TEXT GENERATED ALWAYS AS      -- the permits and tokens that it needs
        (CASE WHEN under IS NOT NULL OR step_under IS NOT NULL THEN '[' || coalesce(under, '[]') || ',' || coalesce(step_under, '[]') || ',' || drawn || ']' END) VIRTUAL,
    limited     INTEGER NOT NULL DEFAULT 0,   -- it is under limits, and no worker holds it: it needs permits to be claimed
    tags        TEXT                          -- JSON, {name: value, ...}; NULL: none
) STRICT;
INSERT INTO runs (id, namespace, workflow, queue, status, priority, visible_at, due_at, paused_from, epoch, seq, stamp, worker, leased, attempt, crashes,
    generation, events, pausing, wakes, parts, external_id, suffix, parent, grp, ordinal, on_close, created_at, started_at, finished_at, deadline,
    forked_from, input, meta, output, failure, reuse, digest, pin, pinned, build, lease_build, under, step_under, drawn, limited, tags)
    SELECT id, namespace, workflow, queue, status, priority, visible_at, due_at, paused_from, epoch, seq, stamp, worker, leased, attempt, crashes,
    generation, events, pausing, wakes, parts, external_id, suffix, parent, grp, ordinal, on_close, created_at, started_at, finished_at, deadline,
    forked_from, input, meta, output, failure, reuse, digest, pin, pinned, build, lease_build, under, step_under, drawn, limited, tags
    FROM runs_moved ORDER BY rowid;
DROP TABLE runs_moved;
CREATE INDEX runs_parent ON runs (parent, grp, ordinal) WHERE parent IS NOT NULL;
CREATE INDEX runs_open_children ON runs (parent) WHERE parent IS NOT NULL AND status < 6;
CREATE INDEX runs_finished ON runs (namespace, finished_at, id) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX runs_external ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND (status < 6 OR reuse = 1);
CREATE INDEX runs_external_past ON runs (namespace, external_id, suffix)
    WHERE external_id IS NOT NULL AND status >= 6 AND reuse = 0;
CREATE INDEX runs_active ON runs (namespace, created_at, id) WHERE finished_at IS NULL;
CREATE INDEX runs_ended ON runs (namespace, status, created_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_failed ON runs (namespace, status, finished_at, id) WHERE status >= 7;
CREATE INDEX runs_pinned ON runs (namespace, pin, created_at, id) WHERE pin <> '' AND status < 6;
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, pin, priority, visible_at, id, status, limited)
    WHERE visible_at IS NOT NULL AND status <> 4 AND limited = 0;
CREATE INDEX runs_flow ON runs (namespace, queue, workflow, pin, priority, flow, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4 AND limited = 1;

-- +goose StatementBegin
CREATE TRIGGER runs_limit_insert AFTER INSERT ON runs WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4 BEGIN
    INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id, fair, fair_key, turn)
    SELECT NEW.namespace, NEW.queue, NEW.workflow, NEW.pin, NEW.priority, NEW.flow, NEW.visible_at, NEW.id, coalesce(f.name, ''), coalesce(f.key, ''), coalesce(f.turn, 0)
    FROM (SELECT 1) LEFT JOIN (
        SELECT l.name, u.key, max(l.clock, coalesce((SELECT vtime FROM limit_keys k WHERE k.namespace=NEW.namespace AND k.name=l.name AND k.key=u.key), 0)) AS turn
        FROM (SELECT value->>0 AS name, value->>1 AS key FROM json_each(NEW.under)
            UNION ALL SELECT value->>0, value->>1 FROM json_each(NEW.step_under)) u
        CROSS JOIN limits l ON l.namespace=NEW.namespace AND l.name=u.name WHERE l.fair ORDER BY l.name LIMIT 1) f
    WHERE true
    ON CONFLICT DO UPDATE SET head_at=excluded.head_at, head_id=excluded.head_id, state=iif(state=1, 0, state)
        WHERE (excluded.head_at, excluded.head_id)<(limit_flows.head_at, limit_flows.head_id);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_came AFTER UPDATE OF status, visible_at, leased, pin, under, step_under, drawn ON runs
WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
    AND (OLD.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR OLD.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow) BEGIN
    INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id, fair, fair_key, turn)
    SELECT NEW.namespace, NEW.queue, NEW.workflow, NEW.pin, NEW.priority, NEW.flow, NEW.visible_at, NEW.id, coalesce(f.name, ''), coalesce(f.key, ''), coalesce(f.turn, 0)
    FROM (SELECT 1) LEFT JOIN (
        SELECT l.name, u.key, max(l.clock, coalesce((SELECT vtime FROM limit_keys k WHERE k.namespace=NEW.namespace AND k.name=l.name AND k.key=u.key), 0)) AS turn
        FROM (SELECT value->>0 AS name, value->>1 AS key FROM json_each(NEW.under)
            UNION ALL SELECT value->>0, value->>1 FROM json_each(NEW.step_under)) u
        CROSS JOIN limits l ON l.namespace=NEW.namespace AND l.name=u.name WHERE l.fair ORDER BY l.name LIMIT 1) f
    WHERE true
    ON CONFLICT DO UPDATE SET head_at=excluded.head_at, head_id=excluded.head_id, state=iif(state=1, 0, state)
        WHERE (excluded.head_at, excluded.head_id)<(limit_flows.head_at, limit_flows.head_id);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_left AFTER UPDATE OF status, visible_at, leased, pin, under, step_under, drawn ON runs
WHEN OLD.limited = 1 AND OLD.visible_at IS NOT NULL AND OLD.status <> 4
    AND (NEW.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR NEW.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow) BEGIN
    DELETE FROM limit_flows WHERE namespace=OLD.namespace AND queue=OLD.queue AND workflow=OLD.workflow AND pin=OLD.pin AND priority=OLD.priority AND flow=OLD.flow
        AND head_id=OLD.id AND NOT EXISTS (SELECT 1 FROM runs r INDEXED BY runs_flow WHERE r.namespace=OLD.namespace AND r.queue=OLD.queue AND r.workflow=OLD.workflow
            AND r.pin=OLD.pin AND r.priority=OLD.priority AND r.flow=OLD.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1);
    UPDATE limit_flows SET (head_at, head_id)=(SELECT r.visible_at, r.id FROM runs r INDEXED BY runs_flow WHERE r.namespace=OLD.namespace AND r.queue=OLD.queue
            AND r.workflow=OLD.workflow AND r.pin=OLD.pin AND r.priority=OLD.priority AND r.flow=OLD.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1
            ORDER BY r.visible_at, r.id LIMIT 1)
        WHERE namespace=OLD.namespace AND queue=OLD.queue AND workflow=OLD.workflow AND pin=OLD.pin AND priority=OLD.priority AND flow=OLD.flow AND head_id=OLD.id;
    UPDATE limit_parks SET wake_at=-1 WHERE NEW.leased=0 AND namespace=OLD.namespace AND (wake_at IS NULL OR wake_at>0)
        AND (name, key) IN (SELECT e.value->>0, e.value->>1 FROM json_each('[0,1]') part CROSS JOIN json_each(CASE WHEN part.value THEN OLD.step_under ELSE OLD.under END) e);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_leased AFTER UPDATE OF leased ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.flow IS NOT NULL BEGIN
    INSERT INTO limit_keys (namespace, name, key, held)
    SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.under) WHERE true
    UNION ALL SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.step_under) WHERE true
    ON CONFLICT DO UPDATE SET held=held+1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_ended AFTER UPDATE OF leased, step_under ON runs
WHEN OLD.leased = 1 AND OLD.flow IS NOT NULL AND (NEW.leased = 0 OR NEW.step_under IS NULL AND OLD.step_under IS NOT NULL) BEGIN
    UPDATE limit_keys SET held=held-1 WHERE namespace=OLD.namespace AND (name, key) IN (SELECT e.value->>0, e.value->>1
        FROM json_each('[0,1]') part CROSS JOIN json_each(CASE WHEN part.value THEN OLD.step_under WHEN NEW.leased=0 THEN OLD.under END) e);
    DELETE FROM limit_keys WHERE namespace=OLD.namespace AND held=0 AND tat=0 AND vtime=0 AND weight=1 AND (name, key) IN (SELECT e.value->>0, e.value->>1
        FROM json_each('[0,1]') part CROSS JOIN json_each(CASE WHEN part.value THEN OLD.step_under WHEN NEW.leased=0 THEN OLD.under END) e);
    UPDATE limit_parks SET wake_at=-1 WHERE namespace=OLD.namespace AND (wake_at IS NULL OR wake_at>0) AND (name, key) IN (SELECT e.value->>0, e.value->>1
        FROM json_each('[0,1]') part CROSS JOIN json_each(CASE WHEN part.value THEN OLD.step_under WHEN NEW.leased=0 THEN OLD.under END) e);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER run_tags_insert AFTER INSERT ON runs WHEN NEW.tags IS NOT NULL BEGIN
    INSERT INTO run_tags (namespace, name, value, created_at, run_id)
    SELECT NEW.namespace, t.key, t.value, NEW.created_at, NEW.id FROM json_each(NEW.tags) t;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER run_tags_update AFTER UPDATE OF tags ON runs WHEN OLD.tags IS NOT NEW.tags BEGIN
    DELETE FROM run_tags WHERE namespace=OLD.namespace AND created_at=OLD.created_at AND run_id=OLD.id
        AND (name, value) IN (SELECT t.key, t.value FROM json_each(OLD.tags) t);
    INSERT INTO run_tags (namespace, name, value, created_at, run_id)
    SELECT NEW.namespace, t.key, t.value, NEW.created_at, NEW.id FROM json_each(NEW.tags) t;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER run_tags_delete AFTER DELETE ON runs WHEN OLD.tags IS NOT NULL BEGIN
    DELETE FROM run_tags WHERE namespace=OLD.namespace AND created_at=OLD.created_at AND run_id=OLD.id
        AND (name, value) IN (SELECT t.key, t.value FROM json_each(OLD.tags) t);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_change_made AFTER INSERT ON runs WHEN NEW.status < 3 AND EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=NEW.namespace) BEGIN
    INSERT INTO changes (namespace, subscription, id, run_id, kind, workflow, queue, external_id, suffix, at, due_at)
    SELECT NEW.namespace, n.name, randomblob(16), NEW.id, 1, NEW.workflow, NEW.queue, NEW.external_id, NEW.suffix, NEW.created_at,
        coalesce((SELECT before.due_at FROM changes before WHERE before.run_id=NEW.id AND before.subscription=n.name ORDER BY before.seq DESC LIMIT 1), 0)
    FROM subscriptions n WHERE n.namespace=NEW.namespace AND (n.kinds=0 OR n.kinds & 2)
        AND (n.workflows='[]' OR EXISTS (SELECT 1 FROM json_each(n.workflows) w WHERE w.value=NEW.workflow));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_change_turned AFTER UPDATE OF status ON runs
WHEN OLD.status <> NEW.status AND (NEW.status > 3 OR OLD.status = 4 OR OLD.status > 5) AND EXISTS (SELECT 1 FROM subscriptions n WHERE n.namespace=NEW.namespace) BEGIN
    INSERT INTO changes (namespace, subscription, id, run_id, kind, workflow, queue, external_id, suffix, at, due_at)
    SELECT NEW.namespace, n.name, randomblob(16), NEW.id, k.kind, NEW.workflow, NEW.queue, NEW.external_id, NEW.suffix,
        iif(NEW.status > 5, NEW.finished_at, CAST(round(unixepoch('subsec')*1000)*1000 AS INTEGER)),
        coalesce((SELECT before.due_at FROM changes before WHERE before.run_id=NEW.id AND before.subscription=n.name ORDER BY before.seq DESC LIMIT 1), 0)
    FROM (SELECT CASE WHEN NEW.status > 5 THEN NEW.status-4 WHEN NEW.status=5 THEN 5 WHEN NEW.status=4 THEN 6 WHEN OLD.status=4 THEN 7 ELSE 8 END AS kind) k
    CROSS JOIN subscriptions n WHERE n.namespace=NEW.namespace AND (n.kinds=0 OR n.kinds & (1 << k.kind))
        AND (n.workflows='[]' OR EXISTS (SELECT 1 FROM json_each(n.workflows) w WHERE w.value=NEW.workflow));
END;
-- +goose StatementEnd

-- +goose Down
-- A table has the same columns in both forms.
SELECT 1;
