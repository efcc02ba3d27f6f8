-- Tags: the business's own words for a run.
--
-- The column holds what a run's tags are. Triggers keep the table, whose primary key has the runs of
-- a tag's value in the order of their creation. A run without tags has no row in it.

-- +goose Up
ALTER TABLE runs ADD COLUMN tags TEXT; -- JSON, {name: value, ...}; NULL: none

CREATE TABLE run_tags (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    value      TEXT    NOT NULL,
    created_at INTEGER NOT NULL, -- of the run
    run_id     BLOB    NOT NULL,
    PRIMARY KEY (namespace, name, value, created_at, run_id)
) STRICT, WITHOUT ROWID;

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

-- +goose Down
DROP TRIGGER run_tags_delete;
DROP TRIGGER run_tags_update;
DROP TRIGGER run_tags_insert;
DROP TABLE run_tags;
ALTER TABLE runs DROP COLUMN tags;
