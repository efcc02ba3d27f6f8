-- A flow in which few runs wait needs no row in limit_flows, which costs as much as the rest of a start: its runs are
-- fresh, and claims find them by an index of their own. When a ninth run waits, or a claim has to leave one because of a
-- limit, the flow gets its row, and none of its runs is fresh. In a namespace with a fair limit each flow has one.
--
-- Programs that know no version above 21 do not look for fresh runs.

-- +goose Up
ALTER TABLE runs ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0; -- it waits for permits, and its flow has no row
CREATE INDEX runs_fresh ON runs (namespace, queue, workflow, pin, priority, visible_at, id) WHERE fresh = 1;
CREATE INDEX limits_fair ON limits (namespace) WHERE fair = 1;

DROP TRIGGER runs_limit_insert;
DROP TRIGGER runs_limit_left;
DROP TRIGGER runs_limit_came;

-- Claims count the permits that they take.
DROP TRIGGER runs_limit_leased;
DROP TRIGGER runs_limit_step_leased;

-- +goose StatementBegin
CREATE TRIGGER runs_limit_insert AFTER INSERT ON runs WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
    AND CASE WHEN NEW.fresh THEN EXISTS (SELECT 1 FROM runs r INDEXED BY runs_flow WHERE r.namespace=NEW.namespace AND r.queue=NEW.queue AND r.workflow=NEW.workflow
            AND r.pin=NEW.pin AND r.priority=NEW.priority AND r.flow=NEW.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1 LIMIT 1 OFFSET 8)
            OR EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=NEW.namespace AND f.queue=NEW.queue AND f.workflow=NEW.workflow AND f.pin=NEW.pin
                AND f.priority=NEW.priority AND f.flow=NEW.flow)
        ELSE NOT EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=NEW.namespace AND f.queue=NEW.queue AND f.workflow=NEW.workflow AND f.pin=NEW.pin AND f.priority=NEW.priority
        AND f.flow=NEW.flow AND (f.head_at, f.head_id)<=(NEW.visible_at, NEW.id)) END BEGIN
    UPDATE runs SET fresh=0 WHERE id=NEW.id AND fresh=1;
    UPDATE runs SET fresh=0 WHERE fresh=1 AND id IN (SELECT r.id FROM runs r INDEXED BY runs_flow WHERE r.namespace=NEW.namespace AND r.queue=NEW.queue AND r.workflow=NEW.workflow
            AND r.pin=NEW.pin AND r.priority=NEW.priority AND r.flow=NEW.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1
            ORDER BY r.visible_at, r.id LIMIT 9);
    INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id, fair, fair_key, turn)
    SELECT NEW.namespace, NEW.queue, NEW.workflow, NEW.pin, NEW.priority, NEW.flow, h.visible_at, h.id, coalesce(f.name, ''), coalesce(f.key, ''), coalesce(f.turn, 0)
    FROM (SELECT r.visible_at, r.id FROM runs r INDEXED BY runs_flow WHERE r.namespace=NEW.namespace AND r.queue=NEW.queue AND r.workflow=NEW.workflow
            AND r.pin=NEW.pin AND r.priority=NEW.priority AND r.flow=NEW.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1
            ORDER BY r.visible_at, r.id LIMIT 1) h LEFT JOIN (
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
CREATE TRIGGER runs_limit_left AFTER UPDATE OF told ON runs
WHEN OLD.limited = 1 AND OLD.visible_at IS NOT NULL AND OLD.status <> 4
    AND (NEW.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR NEW.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow) BEGIN
    UPDATE runs SET fresh=0 WHERE id=OLD.id AND OLD.fresh AND fresh=1;
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
CREATE TRIGGER runs_limit_came AFTER UPDATE OF told ON runs
WHEN NEW.limited = 1 AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
    AND (OLD.limited = 0 OR OLD.visible_at IS NOT NEW.visible_at OR OLD.status = 4 OR OLD.pin <> NEW.pin OR OLD.flow IS NOT NEW.flow)
    AND NOT EXISTS (SELECT 1 FROM limit_flows f WHERE f.namespace=NEW.namespace AND f.queue=NEW.queue AND f.workflow=NEW.workflow AND f.pin=NEW.pin AND f.priority=NEW.priority
        AND f.flow=NEW.flow AND (f.head_at, f.head_id)<=(NEW.visible_at, NEW.id)) BEGIN
    UPDATE runs SET fresh=0 WHERE fresh=1 AND id IN (SELECT r.id FROM runs r INDEXED BY runs_flow WHERE r.namespace=NEW.namespace AND r.queue=NEW.queue AND r.workflow=NEW.workflow
            AND r.pin=NEW.pin AND r.priority=NEW.priority AND r.flow=NEW.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1
            ORDER BY r.visible_at, r.id LIMIT 9);
    INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id, fair, fair_key, turn)
    SELECT NEW.namespace, NEW.queue, NEW.workflow, NEW.pin, NEW.priority, NEW.flow, h.visible_at, h.id, coalesce(f.name, ''), coalesce(f.key, ''), coalesce(f.turn, 0)
    FROM (SELECT r.visible_at, r.id FROM runs r INDEXED BY runs_flow WHERE r.namespace=NEW.namespace AND r.queue=NEW.queue AND r.workflow=NEW.workflow
            AND r.pin=NEW.pin AND r.priority=NEW.priority AND r.flow=NEW.flow AND r.visible_at IS NOT NULL AND r.status<>4 AND r.limited=1
            ORDER BY r.visible_at, r.id LIMIT 1) h LEFT JOIN (
        SELECT l.name, u.key, max(l.clock, coalesce((SELECT vtime FROM limit_keys k WHERE k.namespace=NEW.namespace AND k.name=l.name AND k.key=u.key), 0)) AS turn
        FROM (SELECT value->>0 AS name, value->>1 AS key FROM json_each(NEW.under)
            UNION ALL SELECT value->>0, value->>1 FROM json_each(NEW.step_under)) u
        CROSS JOIN limits l ON l.namespace=NEW.namespace AND l.name=u.name WHERE l.fair ORDER BY l.name LIMIT 1) f
    WHERE true
    ON CONFLICT DO UPDATE SET head_at=excluded.head_at, head_id=excluded.head_id, state=iif(state=1, 0, state)
        WHERE (excluded.head_at, excluded.head_id)<(limit_flows.head_at, limit_flows.head_id);
END;
-- +goose StatementEnd

UPDATE compatibility SET minimum = 22;

-- +goose Down
UPDATE compatibility SET minimum = 21;

DROP TRIGGER runs_limit_insert;
DROP TRIGGER runs_limit_left;
DROP TRIGGER runs_limit_came;

INSERT INTO limit_flows (namespace, queue, workflow, pin, priority, flow, head_at, head_id)
SELECT namespace, queue, workflow, pin, priority, flow, visible_at, id FROM runs WHERE fresh = 1 ORDER BY visible_at, id ON CONFLICT DO NOTHING;

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

DROP INDEX limits_fair;
DROP INDEX runs_fresh;
ALTER TABLE runs DROP COLUMN fresh;
