-- Of the runs of one flow that a transaction starts, the first leaves a mark, and so does each that comes before it. The
-- others left one each: a claim that followed the start of a million runs entered a million marks before it found the
-- next tenant's run.
--
-- Claims ignore the mark of a run that no longer waits. So such a run leaves marks for the others of its flow, which may
-- have none: one of the first of them, and one that names no run, because the first may leave as well.
--
-- Older programs still work, also beside newer ones.

-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.limit_came() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last text := current_setting('pawl_tx.flow', true);
BEGIN
    IF left(last, 37) = '+' || NEW.flow AND substr(last, 94) = NEW.pin THEN
        IF (NEW.visible_at, NEW.id) > (substr(last, 74, 20)::bigint, substr(last, 38, 36)::uuid) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pawl.limit_spaces s WHERE s.namespace = NEW.namespace) THEN
        INSERT INTO pawl.limit_spaces (namespace) VALUES (NEW.namespace) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO pawl.limit_marks (namespace, flow, pin, queue, workflow, priority, under, step_under, taken, at, run)
    VALUES (NEW.namespace, NEW.flow, NEW.pin, NEW.queue, NEW.workflow, NEW.priority, NEW.under, NEW.step_under, NEW.taken, NEW.visible_at, NEW.id);
    PERFORM set_config('pawl_tx.flow', '+' || NEW.flow || NEW.id || lpad(NEW.visible_at::text, 20) || NEW.pin, true);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- limit_others leaves the marks for the others in the flow of a run that no longer waits: once for each flow and
-- transaction, as long as no run comes.
-- +goose StatementBegin
CREATE FUNCTION pawl.limit_others(run pawl.runs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    flow text := '-' || run.flow || run.pin;
BEGIN
    IF current_setting('pawl_tx.flow', true) = flow THEN
        RETURN;
    END IF;
    INSERT INTO pawl.limit_marks (namespace, flow, pin, queue, workflow, priority, under, step_under, taken, at, run)
    SELECT x.namespace, x.flow, x.pin, x.queue, x.workflow, x.priority, x.under, x.step_under, x.taken, x.visible_at, m.id
    FROM (SELECT * FROM pawl.runs r WHERE r.flow = run.flow AND r.flow IS NOT NULL AND r.pin = run.pin AND NOT r.leased AND r.visible_at IS NOT NULL AND r.status <> 4 AND r.id <> run.id
        ORDER BY r.visible_at, r.id LIMIT 1) x CROSS JOIN LATERAL (VALUES (x.id), ('ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)) m(id);
    PERFORM set_config('pawl_tx.flow', flow, true);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.limit_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waits boolean := NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4;
    freed text := CASE WHEN OLD.leased AND NOT NEW.leased THEN OLD.under END;
    freed_step text := CASE WHEN OLD.leased THEN OLD.step_under END;
BEGIN
    IF NOT coalesce(
        OLD.flow IS NOT NULL AND OLD.leased AND (NOT NEW.leased OR OLD.step_under IS NOT NULL AND NEW.step_under IS NULL)
        OR OLD.flow IS NOT NULL AND NOT OLD.leased AND NOT NEW.leased AND OLD.visible_at IS NOT NULL AND OLD.status <> 4 AND (NEW.visible_at IS NULL OR NEW.status = 4)
        OR waits AND (OLD.flow IS DISTINCT FROM NEW.flow OR OLD.pin <> NEW.pin OR OLD.status = 4 OR OLD.visible_at IS NULL OR NEW.visible_at < OLD.visible_at), false)
    THEN
        RETURN NULL;
    END IF;
    IF waits THEN
        IF NOT EXISTS (SELECT 1 FROM pawl.limit_spaces s WHERE s.namespace = NEW.namespace) THEN
            INSERT INTO pawl.limit_spaces (namespace) VALUES (NEW.namespace) ON CONFLICT DO NOTHING;
        END IF;
        INSERT INTO pawl.limit_marks (namespace, freed, freed_step, flow, pin, queue, workflow, priority, under, step_under, taken, at, run)
        VALUES (NEW.namespace, freed, freed_step, NEW.flow, NEW.pin, NEW.queue, NEW.workflow, NEW.priority, NEW.under, NEW.step_under, NEW.taken, NEW.visible_at, NEW.id);
    ELSE
        INSERT INTO pawl.limit_marks (namespace, freed, freed_step, left_flow, pin, run)
        VALUES (NEW.namespace, freed, freed_step, CASE WHEN NOT OLD.leased THEN OLD.flow END, OLD.pin, NEW.id);
        IF NOT OLD.leased AND OLD.flow IS NOT NULL THEN
            PERFORM pawl.limit_others(OLD);
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.limit_came() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE FUNCTION pawl.limit_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    waits boolean := NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4;
    freed text := CASE WHEN OLD.leased AND NOT NEW.leased THEN OLD.under END;
    freed_step text := CASE WHEN OLD.leased THEN OLD.step_under END;
BEGIN
    IF NOT coalesce(
        OLD.flow IS NOT NULL AND OLD.leased AND (NOT NEW.leased OR OLD.step_under IS NOT NULL AND NEW.step_under IS NULL)
        OR OLD.flow IS NOT NULL AND NOT OLD.leased AND NOT NEW.leased AND OLD.visible_at IS NOT NULL AND OLD.status <> 4 AND (NEW.visible_at IS NULL OR NEW.status = 4)
        OR waits AND (OLD.flow IS DISTINCT FROM NEW.flow OR OLD.pin <> NEW.pin OR OLD.status = 4 OR OLD.visible_at IS NULL OR NEW.visible_at < OLD.visible_at), false)
    THEN
        RETURN NULL;
    END IF;
    IF waits THEN
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
DROP FUNCTION pawl.limit_others(pawl.runs);
