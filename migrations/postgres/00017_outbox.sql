-- Outbox: the changes of runs that wait in subscriptions.
--
-- Triggers store them, so that they are stored with the change of the run whichever program makes it. A claim,
-- a sleep and a retry do not call them. Kinds: 1 created, 2 completed, 3 failed, 4 canceled, 5 canceling,
-- 6 paused, 7 resumed, 8 restarted.

-- +goose Up
CREATE TABLE pawl.subscriptions (
    namespace    text   COLLATE "C" NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    workflows    text   NOT NULL,              -- JSON; an empty list: all
    kinds        bigint NOT NULL,              -- bits 1 to 8; 0: all
    keep         bigint NOT NULL,              -- microseconds
    updated_at   bigint NOT NULL,
    created_at   bigint NOT NULL,
    delivered_at bigint,
    failed_at    bigint,
    error        text   NOT NULL DEFAULT '',
    dropped      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

CREATE TABLE pawl.changes (
    namespace    text     COLLATE "C" NOT NULL,
    subscription text     COLLATE "C" NOT NULL,
    seq          bigint   GENERATED ALWAYS AS IDENTITY,
    id           uuid     NOT NULL DEFAULT gen_random_uuid(),
    run_id       uuid     NOT NULL,            -- which may be purged
    kind         smallint NOT NULL,
    workflow     text     COLLATE "C" NOT NULL,
    queue        text     COLLATE "C" NOT NULL,
    external_id  text     COLLATE "C",
    suffix       text     COLLATE "C" NOT NULL,
    at           bigint   NOT NULL,
    due_at       bigint   NOT NULL DEFAULT 0,  -- of all that wait behind a failed delivery of their run, that of the first one
    attempts     integer  NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, subscription, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX changes_run ON pawl.changes (run_id, subscription, seq);
CREATE INDEX changes_due ON pawl.changes (namespace, subscription, due_at, seq);

-- The row of the run is locked, so that the changes of a run get their numbers in the order in which they happen. The function has
-- the rights of its owner: an older program that writes runs may have none to tables that it does not know.
-- +goose StatementBegin
CREATE FUNCTION pawl.run_changed() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    what smallint;
    now_at bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pawl.subscriptions n WHERE n.namespace = NEW.namespace) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        what := 1;
        now_at := NEW.created_at;
    ELSE
        what := CASE WHEN NEW.status >= 6 THEN NEW.status - 4 WHEN NEW.status = 5 THEN 5 WHEN NEW.status = 4 THEN 6 WHEN OLD.status = 4 THEN 7 ELSE 8 END;
        now_at := CASE WHEN NEW.status >= 6 THEN NEW.finished_at ELSE (extract(epoch FROM now()) * 1000000)::bigint END;
    END IF;
    INSERT INTO pawl.changes (namespace, subscription, run_id, kind, workflow, queue, external_id, suffix, at, due_at)
    SELECT NEW.namespace, n.name, NEW.id, what, NEW.workflow, NEW.queue, NEW.external_id, NEW.suffix, now_at,
           coalesce((SELECT before.due_at FROM pawl.changes before WHERE before.run_id = NEW.id AND before.subscription = n.name ORDER BY before.seq DESC LIMIT 1), 0)
    FROM pawl.subscriptions n
    WHERE n.namespace = NEW.namespace AND (n.kinds = 0 OR n.kinds & (1 << what) <> 0)
        AND (n.workflows = '[]' OR EXISTS (SELECT 1 FROM json_array_elements_text(n.workflows::json) w WHERE w = NEW.workflow));
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- The triggers are created with the first subscription of the database, so that nobody pays for them before. Once they are
-- there they stay. Whoever puts the subscription need not own the table. A long transaction that writes runs makes the call
-- fail; without the timeout, all other writers would wait behind the call.
-- +goose StatementBegin
CREATE FUNCTION pawl.watch_runs() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
BEGIN
    IF (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = 'pawl.runs'::regclass AND t.tgname IN ('change_made', 'change_turned')) = 2 THEN
        RETURN false;
    END IF;
    -- An imported run is paused or final.
    CREATE OR REPLACE TRIGGER change_made AFTER INSERT ON pawl.runs FOR EACH ROW WHEN (NEW.status < 3) EXECUTE FUNCTION pawl.run_changed();
    CREATE OR REPLACE TRIGGER change_turned AFTER UPDATE OF status ON pawl.runs FOR EACH ROW
        WHEN (OLD.status <> NEW.status AND (NEW.status > 3 OR OLD.status = 4 OR OLD.status > 5)) EXECUTE FUNCTION pawl.run_changed();
    RETURN true;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER IF EXISTS change_turned ON pawl.runs;
DROP TRIGGER IF EXISTS change_made ON pawl.runs;
DROP FUNCTION pawl.watch_runs();
DROP FUNCTION pawl.run_changed();
DROP TABLE pawl.changes;
DROP TABLE pawl.subscriptions;
