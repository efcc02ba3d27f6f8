-- Writing a run costs less: the keys of runs_created have a fixed length, and the condition of the
-- trigger of limits is short.
--
-- Older programs still work. Their lists, counts by status and pages of builds read all runs of the namespace.

-- +goose NO TRANSACTION
-- +goose Up
-- By namespace and status, in one number, then by creation. Keys of a fixed length are compared and
-- stored faster than those that begin with a text. No two keys are equal, so deduplication would find nothing.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_created_18 ON pawl.runs ((hashtext(namespace)::bigint << 8 | status), created_at, id)
    WITH (deduplicate_items = off);

DROP INDEX pawl.runs_created;
ALTER INDEX pawl.runs_created_18 RENAME TO runs_created;

-- Each statement that updates runs parses the condition again, so it is short. The function checks the rest.
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
CREATE OR REPLACE TRIGGER limit_changed AFTER UPDATE ON pawl.runs FOR EACH ROW
    WHEN ((OLD.flow IS NOT NULL OR NEW.flow IS NOT NULL) AND (NOT NEW.leased OR OLD.step_under IS NOT NULL))
    EXECUTE FUNCTION pawl.limit_changed();

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.limit_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE TRIGGER limit_changed AFTER UPDATE ON pawl.runs FOR EACH ROW
    WHEN (OLD.flow IS NOT NULL AND OLD.leased AND (NOT NEW.leased OR OLD.step_under IS NOT NULL AND NEW.step_under IS NULL)
        OR OLD.flow IS NOT NULL AND NOT OLD.leased AND NOT NEW.leased AND OLD.visible_at IS NOT NULL AND OLD.status <> 4 AND (NEW.visible_at IS NULL OR NEW.status = 4)
        OR NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4
            AND (OLD.flow IS DISTINCT FROM NEW.flow OR OLD.pin <> NEW.pin OR OLD.status = 4 OR OLD.visible_at IS NULL OR NEW.visible_at < OLD.visible_at))
    EXECUTE FUNCTION pawl.limit_changed();
DROP INDEX pawl.runs_created;
CREATE INDEX runs_created ON pawl.runs ((namespace || ''), (status + 0), created_at, id);
