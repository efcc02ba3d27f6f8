-- Outbox: the changes of runs that wait in subscriptions.
--
-- Triggers store them, so that they are stored with the change of the run whichever program makes it. A claim,
-- a sleep and a retry are none. Kinds: 1 created, 2 completed, 3 failed, 4 canceled, 5 canceling, 6 paused,
-- 7 resumed, 8 restarted.

-- +goose Up
CREATE TABLE subscriptions (
    namespace    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    workflows    TEXT    NOT NULL,            -- JSON; an empty list: all
    kinds        INTEGER NOT NULL,            -- bits 1 to 8; 0: all
    keep         INTEGER NOT NULL,            -- microseconds
    updated_at   INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    failed_at    INTEGER,
    error        TEXT    NOT NULL DEFAULT '',
    dropped      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE changes (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace    TEXT    NOT NULL,
    subscription TEXT    NOT NULL,
    id           BLOB    NOT NULL,
    run_id       BLOB    NOT NULL,            -- which may be purged
    kind         INTEGER NOT NULL,
    workflow     TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    external_id  TEXT,
    suffix       TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,            -- of all that wait behind a failed delivery of their run, that of the first one
    attempts     INTEGER NOT NULL DEFAULT 0
) STRICT;
-- Each ends with seq.
CREATE INDEX changes_of ON changes (namespace, subscription);
CREATE INDEX changes_run ON changes (run_id, subscription);
CREATE INDEX changes_due ON changes (namespace, subscription, due_at);

-- An imported run is paused or final.
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
DROP TRIGGER runs_change_turned;
DROP TRIGGER runs_change_made;
DROP TABLE changes;
DROP TABLE subscriptions;
