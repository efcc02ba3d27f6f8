-- Limits: which runs may be claimed beside others.

-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE pawl.runs
    ADD COLUMN IF NOT EXISTS under text,                          -- the limits that the run is under: JSON; NULL: none
    ADD COLUMN IF NOT EXISTS step_under text,                     -- those of the step that it waits for or executes
    ADD COLUMN IF NOT EXISTS taken boolean NOT NULL DEFAULT false, -- the attempt has taken its tokens
    ADD COLUMN IF NOT EXISTS flow uuid;                           -- hash of what its claim depends on; NULL: under no limit

-- A claim meets no run that waits under a limit. It finds those by their flow.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_claim_9 ON pawl.runs (namespace, queue, workflow, pin, priority, visible_at, id)
    WHERE visible_at IS NOT NULL AND status <> 4 AND (flow IS NULL OR leased);
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_flow ON pawl.runs (flow, pin, visible_at, id)
    WHERE flow IS NOT NULL AND NOT leased AND visible_at IS NOT NULL AND status <> 4;

-- The namespaces in which a run was ever under a limit.
CREATE TABLE pawl.limit_spaces (
    namespace text COLLATE "C" NOT NULL PRIMARY KEY
);

CREATE TABLE pawl.limits (
    namespace   text    COLLATE "C" NOT NULL,
    name        text    COLLATE "C" NOT NULL,
    rule        text,                          -- JSON, of code; NULL: none
    own_rule    text,                          -- JSON, of an operator; NULL: none
    concurrency bigint  NOT NULL,              -- this and the following: the rule in force; 0: does not limit
    every       bigint  NOT NULL,              -- microseconds between two tokens
    burst       bigint  NOT NULL,
    fair        boolean NOT NULL,
    clock       bigint  NOT NULL DEFAULT 0,    -- virtual time
    updated_at  bigint  NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

-- Only a claim that holds the lock of the limits of its namespace writes keys and flows.
CREATE TABLE pawl.limit_keys (
    namespace text   COLLATE "C" NOT NULL,
    name      text   COLLATE "C" NOT NULL,
    key       text   COLLATE "C" NOT NULL,
    held      bigint NOT NULL DEFAULT 0,       -- leases, but for marks that no claim has read
    tat       bigint NOT NULL DEFAULT 0,       -- when all tokens are there
    vtime     bigint NOT NULL DEFAULT 0,
    weight    bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (namespace, name, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- A flow has the runs that wait for the same permits, in one lane. State: 1 ready, 2 parked at a key
-- until that has a permit, 3 nothing can be claimed before a time, 4 parked at a key behind a flow in state 3.
CREATE TABLE pawl.limit_flows (
    flow       uuid     NOT NULL,
    pin        text     COLLATE "C" NOT NULL,
    namespace  text     COLLATE "C" NOT NULL,
    lane       text     COLLATE "C" NOT NULL,  -- queue, workflow, pin and priority, one a line
    queue      text     COLLATE "C" NOT NULL,
    under      text,
    step_under text,
    taken      boolean  NOT NULL,
    names      text[]   COLLATE "C" NOT NULL,  -- the limits of both
    keys       text[]   COLLATE "C" NOT NULL,
    head_at    bigint   NOT NULL,              -- visible_at of the first run
    head_id    uuid     NOT NULL,
    state      smallint NOT NULL,
    at         bigint   NOT NULL DEFAULT 0,    -- of state 3
    limit_name text     COLLATE "C",           -- where it is parked, or was
    limit_key  text     COLLATE "C",
    fair       text     COLLATE "C" NOT NULL DEFAULT '', -- the fair limit that decides on its turn
    turn       bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (flow, pin)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX limit_flows_ready ON pawl.limit_flows (namespace, lane, fair, turn, head_at, head_id) WHERE state = 1;
CREATE INDEX limit_flows_timed ON pawl.limit_flows (namespace, lane, at) WHERE state = 3;
CREATE INDEX limit_flows_parked ON pawl.limit_flows (namespace, limit_name, limit_key, lane, state, turn, head_at, head_id) WHERE limit_name IS NOT NULL;

-- What claims have to know: permits that ended, and runs that wait. Claims delete it.
CREATE TABLE pawl.limit_marks (
    namespace  text     COLLATE "C" NOT NULL,
    seq        bigint   GENERATED ALWAYS AS IDENTITY,
    freed      text,                           -- JSON: limits whose permits ended
    freed_step text,
    flow       uuid,                           -- NULL: no run waits
    pin        text     COLLATE "C",
    queue      text     COLLATE "C",
    workflow   text     COLLATE "C",
    priority   smallint,
    under      text,
    step_under text,
    taken      boolean,
    at         bigint,
    run        uuid,
    left_flow  uuid,                           -- in which the run does not wait any more
    PRIMARY KEY (namespace, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);

-- +goose StatementBegin
CREATE FUNCTION pawl.limit_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pawl.limit_spaces s WHERE s.namespace = NEW.namespace) THEN
        INSERT INTO pawl.limit_spaces (namespace) VALUES (NEW.namespace) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO pawl.limit_marks (namespace, flow, pin, queue, workflow, priority, under, step_under, taken, at, run)
    VALUES (NEW.namespace, NEW.flow, NEW.pin, NEW.queue, NEW.workflow, NEW.priority, NEW.under, NEW.step_under, NEW.taken, NEW.visible_at, NEW.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.limit_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    freed text := CASE WHEN OLD.leased AND NOT NEW.leased THEN OLD.under END;
    freed_step text := CASE WHEN OLD.leased THEN OLD.step_under END;
BEGIN
    IF NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4 THEN
        IF NOT EXISTS (SELECT 1 FROM pawl.limit_spaces s WHERE s.namespace = NEW.namespace) THEN
            INSERT INTO pawl.limit_spaces (namespace) VALUES (NEW.namespace) ON CONFLICT DO NOTHING;
        END IF;
        INSERT INTO pawl.limit_marks (namespace, freed, freed_step, flow, pin, queue, workflow, priority, under, step_under, taken, at, run)
        VALUES (NEW.namespace, freed, freed_step, NEW.flow, NEW.pin, NEW.queue, NEW.workflow, NEW.priority, NEW.under, NEW.step_under, NEW.taken, NEW.visible_at, NEW.id);
    ELSE
        INSERT INTO pawl.limit_marks (namespace, freed, freed_step, left_flow, pin, run)
        VALUES (NEW.namespace, freed, freed_step, CASE WHEN NOT OLD.leased THEN OLD.flow END, OLD.pin, NEW.id);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION pawl.limit_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl.limit_marks (namespace, freed, freed_step) VALUES (OLD.namespace, OLD.under, OLD.step_under);
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER limit_came AFTER INSERT ON pawl.runs FOR EACH ROW
    WHEN (NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4)
    EXECUTE FUNCTION pawl.limit_came();
CREATE TRIGGER limit_changed AFTER UPDATE ON pawl.runs FOR EACH ROW
    WHEN (OLD.flow IS NOT NULL AND OLD.leased AND (NOT NEW.leased OR OLD.step_under IS NOT NULL AND NEW.step_under IS NULL)
        OR OLD.flow IS NOT NULL AND NOT OLD.leased AND NOT NEW.leased AND OLD.visible_at IS NOT NULL AND OLD.status <> 4 AND (NEW.visible_at IS NULL OR NEW.status = 4)
        OR NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
            AND (OLD.flow IS DISTINCT FROM NEW.flow OR OLD.pin <> NEW.pin OR OLD.status = 4 OR OLD.visible_at IS NULL OR NEW.visible_at < OLD.visible_at))
    EXECUTE FUNCTION pawl.limit_changed();
CREATE TRIGGER limit_gone AFTER DELETE ON pawl.runs FOR EACH ROW
    WHEN (OLD.flow IS NOT NULL AND OLD.leased)
    EXECUTE FUNCTION pawl.limit_gone();

DROP INDEX pawl.runs_claim;
ALTER INDEX pawl.runs_claim_9 RENAME TO runs_claim;

-- The claims of older programs would take runs that their limits hold back.
UPDATE pawl.compatibility SET minimum = 9;

-- +goose Down
DROP TRIGGER limit_came ON pawl.runs;
DROP TRIGGER limit_changed ON pawl.runs;
DROP TRIGGER limit_gone ON pawl.runs;
DROP FUNCTION pawl.limit_came();
DROP FUNCTION pawl.limit_changed();
DROP FUNCTION pawl.limit_gone();
DROP TABLE pawl.limit_marks, pawl.limit_flows, pawl.limit_keys, pawl.limits, pawl.limit_spaces;
DROP INDEX pawl.runs_flow;
DROP INDEX pawl.runs_claim;
CREATE INDEX runs_claim ON pawl.runs (namespace, queue, workflow, pin, priority, visible_at, id)
    WHERE visible_at IS NOT NULL AND status <> 4;
ALTER TABLE pawl.runs DROP COLUMN flow, DROP COLUMN taken, DROP COLUMN step_under, DROP COLUMN under;
UPDATE pawl.compatibility SET minimum = 7;
