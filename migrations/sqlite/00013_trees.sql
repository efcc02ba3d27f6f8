-- Trees: the inner runs of a tree, by their parent.
--
-- An inner run has a parent, and groups of its own. The counts of a tree are the sum over its inner
-- runs; this table finds them among the other children. Triggers keep it. A run that spawns children
-- and has no parent has no row in it, and neither has a child that spawns none.

-- +goose Up
CREATE TABLE inner_runs (
    run_id BLOB NOT NULL PRIMARY KEY,
    parent BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX inner_runs_parent ON inner_runs (parent);

-- +goose StatementBegin
CREATE TRIGGER inner_runs_insert AFTER INSERT ON groups BEGIN
    INSERT INTO inner_runs (run_id, parent)
    SELECT r.id, r.parent FROM runs r WHERE r.id=NEW.run_id AND r.parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inner_runs i WHERE i.run_id=NEW.run_id);
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER inner_runs_delete AFTER DELETE ON groups BEGIN
    DELETE FROM inner_runs WHERE run_id=OLD.run_id;
END;
-- +goose StatementEnd

INSERT INTO inner_runs (run_id, parent)
SELECT DISTINCT r.id, r.parent FROM groups g CROSS JOIN runs r ON r.id=g.run_id WHERE r.parent IS NOT NULL;

-- +goose Down
DROP TRIGGER inner_runs_delete;
DROP TRIGGER inner_runs_insert;
DROP TABLE inner_runs;
