-- Limits: how many runs work at a time and how often they begin, by key.
--
-- Triggers keep the permits, and which flows wait: whoever starts, ends or changes a run that
-- is under a limit, and however, changes them in the same write. Claims decide.

-- +goose Up
ALTER TABLE runs ADD COLUMN under TEXT;                       -- the limits of the run: JSON, [[limit, key, tokens], ...]; NULL: none
ALTER TABLE runs ADD COLUMN step_under TEXT;                  -- those of the step that it waits for or executes
ALTER TABLE runs ADD COLUMN drawn INTEGER NOT NULL DEFAULT 0; -- the attempt has taken the tokens of the run's limits
-- Runs of one flow need the same permits and tokens: the first one stands for all of them.
ALTER TABLE runs ADD COLUMN flow TEXT GENERATED ALWAYS AS
    (CASE WHEN under IS NOT NULL OR step_under IS NOT NULL THEN '[' || coalesce(under, '[]') || ',' || coalesce(step_under, '[]') || ',' || drawn || ']' END) VIRTUAL;
ALTER TABLE runs ADD COLUMN limited INTEGER NOT NULL DEFAULT 0; -- it is under limits, and no worker holds it: it needs permits to be claimed

-- A claim of runs that need no permit meets none that needs one.
DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, pin, priority, visible_at, id, status, limited)
    WHERE visible_at IS NOT NULL AND status <> 4 AND limited = 0;
CREATE INDEX runs_flow ON runs (namespace, queue, workflow, pin, priority, flow, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4 AND limited = 1;

CREATE TABLE limits (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    rule       TEXT    NOT NULL,              -- JSON, as code has registered it
    set_rule   TEXT,                          -- JSON, as an operator has set it: it wins
    fair       INTEGER NOT NULL,              -- of the rule in force
    clock      INTEGER NOT NULL DEFAULT 0,    -- virtual time of a fair limit
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE limit_keys (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    held      INTEGER NOT NULL DEFAULT 0,     -- leases
    tat       INTEGER NOT NULL DEFAULT 0,     -- of a rate: when the bucket is full again
    vtime     INTEGER NOT NULL DEFAULT 0,     -- virtual time
    weight    INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (namespace, name, key)
) STRICT, WITHOUT ROWID;

-- Keys that may be forgotten once their time has passed; those without any are deleted at once.
CREATE INDEX limit_keys_rates ON limit_keys (namespace, tat) WHERE held = 0 AND weight = 1 AND vtime = 0;
CREATE INDEX limit_keys_turns ON limit_keys (namespace, name, vtime) WHERE held = 0 AND weight = 1 AND vtime > 0;

-- The flows that have runs that wait for a claim.
CREATE TABLE limit_flows (
    id          INTEGER PRIMARY KEY,
    namespace   TEXT    NOT NULL,
    queue       TEXT    NOT NULL,
    workflow    TEXT    NOT NULL,
    pin         TEXT    NOT NULL,
    priority    INTEGER NOT NULL,
    flow        TEXT    NOT NULL,
    head_at     INTEGER NOT NULL,             -- of the first run
    head_id     BLOB    NOT NULL,
    fair        TEXT    NOT NULL DEFAULT '',  -- the fair limit that decides; empty: none
    fair_key    TEXT    NOT NULL DEFAULT '',
    turn        INTEGER NOT NULL DEFAULT 0,   -- virtual time of that key
    state       INTEGER NOT NULL DEFAULT 0,   -- 0 candidate, 1 not due, 2 parked: at a key that does not permit it
    park_name   TEXT    NOT NULL DEFAULT '',
    park_key    TEXT    NOT NULL DEFAULT '',
    park_tokens INTEGER NOT NULL DEFAULT 0    -- 0: its concurrency; otherwise so many tokens
) STRICT;
CREATE UNIQUE INDEX limit_flows_flow ON limit_flows (namespace, queue, workflow, pin, priority, flow);
CREATE INDEX limit_flows_ready ON limit_flows (namespace, queue, workflow, pin, fair, turn, fair_key, priority DESC, head_at, head_id) WHERE state = 0;
CREATE INDEX limit_flows_later ON limit_flows (namespace, queue, workflow, pin, head_at) WHERE state = 1;
CREATE INDEX limit_flows_due ON limit_flows (namespace, queue, workflow, pin, head_at) WHERE state < 2;
CREATE INDEX limit_flows_parked ON limit_flows (namespace, park_name, park_key, park_tokens, queue, workflow, pin, fair, turn, fair_key, priority DESC, head_at, head_id)
    WHERE state = 2;
CREATE INDEX limit_flows_turn ON limit_flows (namespace, fair, fair_key) WHERE fair <> '';

-- Where flows are parked, by lane.
CREATE TABLE limit_parks (
    namespace TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    tokens    INTEGER NOT NULL,
    queue     TEXT    NOT NULL,
    workflow  TEXT    NOT NULL,
    pin       TEXT    NOT NULL,
    wake_at   INTEGER,                        -- when the key may permit more; -1: now, and no other queue was told; NULL: unknown
    PRIMARY KEY (namespace, name, key, tokens, queue, workflow, pin)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_parks_wake ON limit_parks (namespace, queue, workflow, pin, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX limit_parks_told ON limit_parks (namespace, queue) WHERE wake_at = -1;

-- One row for each namespace whose claims have planned: a plan applies only to what it has seen.
CREATE TABLE limit_plans (
    namespace TEXT    NOT NULL PRIMARY KEY,
    version   INTEGER NOT NULL,
    stamp     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

-- A flow without a first run is gone; the next flow of its keys may have its room.
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

-- The end of a lease, or of its permits for a step.
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

-- A program that does not know limits would ignore them, and read all runs.
UPDATE compatibility SET minimum = 8;

-- +goose Down
DROP TRIGGER runs_limit_ended;
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_left;
DROP TRIGGER runs_limit_came;
DROP TRIGGER runs_limit_insert;
DROP TABLE limit_plans;
DROP TABLE limit_parks;
DROP TABLE limit_flows;
DROP TABLE limit_keys;
DROP TABLE limits;
DROP INDEX runs_flow;
DROP INDEX runs_claim;
CREATE INDEX runs_claim ON runs (namespace, queue, workflow, pin, priority, visible_at, id, status)
    WHERE visible_at IS NOT NULL AND status <> 4;
ALTER TABLE runs DROP COLUMN limited;
ALTER TABLE runs DROP COLUMN flow;
ALTER TABLE runs DROP COLUMN drawn;
ALTER TABLE runs DROP COLUMN step_under;
ALTER TABLE runs DROP COLUMN under;
UPDATE compatibility SET minimum = 7;
