-- Triggers cost each statement that may fire them, also where their condition does not hold: a third of what the end
-- of a run costs. Those of limits and of changes fire for statements that set told, whose value means nothing. A
-- statement that only changes runs under no limit, in a namespace without subscriptions, does not set it.
--
-- Programs that know no version above 20 do not set it. Under them, leases would keep their permits.

-- +goose Up
ALTER TABLE runs ADD COLUMN told INTEGER;

DROP TRIGGER runs_limit_left;
DROP TRIGGER runs_change_turned;
DROP TRIGGER runs_limit_came;
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_step_leased;
DROP TRIGGER runs_limit_ended;
DROP TRIGGER runs_limit_step_ended;

-- +goose StatementBegin
CREATE TRIGGER runs_limit_left AFTER UPDATE OF told ON runs
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
CREATE TRIGGER runs_change_turned AFTER UPDATE OF told ON runs
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

-- +goose StatementBegin
CREATE TRIGGER runs_limit_came AFTER UPDATE OF told ON runs
WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
    AND (OLD.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR OLD.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow)
    AND NOT EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=NEW.namespace AND f.queue=NEW.queue AND f.workflow=NEW.workflow AND f.pin=NEW.pin AND f.priority=NEW.priority
        AND f.flow=NEW.flow AND (f.head_at, f.head_id)<=(NEW.visible_at, NEW.id)) BEGIN
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
CREATE TRIGGER runs_limit_leased AFTER UPDATE OF told ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.under IS NOT NULL BEGIN
    INSERT INTO limit_keys (namespace, name, key, held) SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.under) WHERE true
    ON CONFLICT DO UPDATE SET held=held+1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_step_leased AFTER UPDATE OF told ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.step_under IS NOT NULL BEGIN
    INSERT INTO limit_keys (namespace, name, key, held) SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.step_under) WHERE true
    ON CONFLICT DO UPDATE SET held=held+1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_ended AFTER UPDATE OF told ON runs WHEN OLD.leased = 1 AND NEW.leased = 0 AND OLD.under IS NOT NULL BEGIN
    UPDATE limit_keys SET held=held-1 WHERE namespace=OLD.namespace AND (name, key) IN (SELECT value->>0, value->>1 FROM json_each(OLD.under));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_step_ended AFTER UPDATE OF told ON runs WHEN OLD.leased = 1 AND OLD.step_under IS NOT NULL AND (NEW.leased = 0 OR NEW.step_under IS NULL) BEGIN
    UPDATE limit_keys SET held=held-1 WHERE namespace=OLD.namespace AND (name, key) IN (SELECT value->>0, value->>1 FROM json_each(OLD.step_under));
END;
-- +goose StatementEnd

UPDATE compatibility SET minimum = 21;

-- +goose Down
UPDATE compatibility SET minimum = 8;

DROP TRIGGER runs_limit_left;
DROP TRIGGER runs_change_turned;
DROP TRIGGER runs_limit_came;
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_step_leased;
DROP TRIGGER runs_limit_ended;
DROP TRIGGER runs_limit_step_ended;

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

-- +goose StatementBegin
CREATE TRIGGER runs_limit_came AFTER UPDATE OF status, visible_at, leased, pin, under, step_under, drawn ON runs
WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
    AND (OLD.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR OLD.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow)
    AND NOT EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=NEW.namespace AND f.queue=NEW.queue AND f.workflow=NEW.workflow AND f.pin=NEW.pin AND f.priority=NEW.priority
        AND f.flow=NEW.flow AND (f.head_at, f.head_id)<=(NEW.visible_at, NEW.id)) BEGIN
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
CREATE TRIGGER runs_limit_leased AFTER UPDATE OF leased ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.under IS NOT NULL BEGIN
    INSERT INTO limit_keys (namespace, name, key, held) SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.under) WHERE true
    ON CONFLICT DO UPDATE SET held=held+1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_step_leased AFTER UPDATE OF leased ON runs WHEN NEW.leased = 1 AND OLD.leased = 0 AND NEW.step_under IS NOT NULL BEGIN
    INSERT INTO limit_keys (namespace, name, key, held) SELECT NEW.namespace, value->>0, value->>1, 1 FROM json_each(NEW.step_under) WHERE true
    ON CONFLICT DO UPDATE SET held=held+1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_ended AFTER UPDATE OF leased ON runs WHEN OLD.leased = 1 AND NEW.leased = 0 AND OLD.under IS NOT NULL BEGIN
    UPDATE limit_keys SET held=held-1 WHERE namespace=OLD.namespace AND (name, key) IN (SELECT value->>0, value->>1 FROM json_each(OLD.under));
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER runs_limit_step_ended AFTER UPDATE OF leased, step_under ON runs WHEN OLD.leased = 1 AND OLD.step_under IS NOT NULL AND (NEW.leased = 0 OR NEW.step_under IS NULL) BEGIN
    UPDATE limit_keys SET held=held-1 WHERE namespace=OLD.namespace AND (name, key) IN (SELECT value->>0, value->>1 FROM json_each(OLD.step_under));
END;
-- +goose StatementEnd

ALTER TABLE runs DROP COLUMN told;
