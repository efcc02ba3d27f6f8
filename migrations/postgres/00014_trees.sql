-- Trees: the inner runs of a tree, by their parent.
--
-- An inner run has a parent, and groups of its own. The counts of a tree are the sum over its inner
-- runs; this table finds them among the other children. Triggers keep it. A run that spawns children
-- and has no parent has no row in it, and neither has a child that spawns none.

-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS pawl.inner_runs (
    run_id uuid NOT NULL PRIMARY KEY,
    parent uuid NOT NULL
);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pawl.inner_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM pawl.inner_runs WHERE run_id = OLD.run_id;
    ELSE
        INSERT INTO pawl.inner_runs (run_id, parent)
        SELECT r.id, r.parent FROM pawl.runs r WHERE r.id = NEW.run_id AND r.parent IS NOT NULL ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER inner_insert AFTER INSERT ON pawl.groups FOR EACH ROW EXECUTE FUNCTION pawl.inner_changed();
CREATE OR REPLACE TRIGGER inner_delete AFTER DELETE ON pawl.groups FOR EACH ROW EXECUTE FUNCTION pawl.inner_changed();

-- What follows the build of an index is a transaction of its own, which locks no table in use.
CREATE INDEX CONCURRENTLY IF NOT EXISTS inner_runs_parent ON pawl.inner_runs (parent);

INSERT INTO pawl.inner_runs (run_id, parent)
SELECT DISTINCT r.id, r.parent FROM pawl.groups g JOIN pawl.runs r ON r.id = g.run_id WHERE r.parent IS NOT NULL ON CONFLICT DO NOTHING;

-- +goose Down
DROP TRIGGER inner_insert ON pawl.groups;
DROP TRIGGER inner_delete ON pawl.groups;
DROP FUNCTION pawl.inner_changed();
DROP TABLE pawl.inner_runs;
