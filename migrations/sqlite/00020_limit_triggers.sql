-- Shorter triggers for limits. They do what those before did: a run that waits behind the first one of its flow
-- changes nothing there, each list of limits is read once, and the row of a key knows what its end means.

-- +goose Up
DROP TRIGGER runs_limit_insert;
DROP TRIGGER runs_limit_came;
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_ended;

-- +goose StatementBegin
CREATE TRIGGER runs_limit_insert AFTER INSERT ON runs WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
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

-- The end of a lease, or of its permits for a step.
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

-- +goose StatementBegin
CREATE TRIGGER limit_keys_freed AFTER UPDATE OF held ON limit_keys WHEN NEW.held < OLD.held
    AND EXISTS (SELECT 1 FROM limit_parks WHERE namespace=NEW.namespace AND name=NEW.name AND key=NEW.key AND (wake_at IS NULL OR wake_at>0)) BEGIN
    UPDATE limit_parks SET wake_at=-1 WHERE namespace=NEW.namespace AND name=NEW.name AND key=NEW.key AND (wake_at IS NULL OR wake_at>0);
END;
-- +goose StatementEnd

-- A key is forgotten when it is as if it had never been used.
-- +goose StatementBegin
CREATE TRIGGER limit_keys_unused AFTER UPDATE OF held ON limit_keys WHEN NEW.held = 0 AND NEW.tat = 0 AND NEW.vtime = 0 AND NEW.weight = 1 BEGIN
    DELETE FROM limit_keys WHERE namespace=NEW.namespace AND name=NEW.name AND key=NEW.key;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER limit_keys_unused;
DROP TRIGGER limit_keys_freed;
DROP TRIGGER runs_limit_step_ended;
DROP TRIGGER runs_limit_ended;
DROP TRIGGER runs_limit_step_leased;
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_came;
DROP TRIGGER runs_limit_insert;

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
