-- Tags: the business's own words for a run.
--
-- The column holds what a run's tags are. Triggers keep the table, whose primary key has the runs of
-- a tag's value in the order of their creation. A run without tags has no row in it.

-- +goose Up
ALTER TABLE pawl.runs ADD COLUMN tags text; -- JSON, {name: value, ...}; NULL: none

CREATE TABLE pawl.run_tags (
    namespace  text   COLLATE "C" NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    value      text   COLLATE "C" NOT NULL,
    created_at bigint NOT NULL, -- of the run
    run_id     uuid   NOT NULL,
    PRIMARY KEY (namespace, name, value, created_at, run_id)
);

-- +goose StatementBegin
CREATE FUNCTION pawl.tags_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM pawl.run_tags x USING json_each_text(OLD.tags::json) t
        WHERE x.namespace = OLD.namespace AND x.name = t.key AND x.value = t.value AND x.created_at = OLD.created_at AND x.run_id = OLD.id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO pawl.run_tags (namespace, name, value, created_at, run_id)
        SELECT NEW.namespace, t.key, t.value, NEW.created_at, NEW.id FROM json_each_text(NEW.tags::json) t;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER tags_insert AFTER INSERT ON pawl.runs FOR EACH ROW
    WHEN (NEW.tags IS NOT NULL) EXECUTE FUNCTION pawl.tags_changed();
CREATE TRIGGER tags_update AFTER UPDATE OF tags ON pawl.runs FOR EACH ROW
    WHEN (OLD.tags IS DISTINCT FROM NEW.tags) EXECUTE FUNCTION pawl.tags_changed();
CREATE TRIGGER tags_delete AFTER DELETE ON pawl.runs FOR EACH ROW
    WHEN (OLD.tags IS NOT NULL) EXECUTE FUNCTION pawl.tags_changed();

-- +goose Down
DROP TRIGGER tags_delete ON pawl.runs;
DROP TRIGGER tags_update ON pawl.runs;
DROP TRIGGER tags_insert ON pawl.runs;
DROP FUNCTION pawl.tags_changed();
DROP TABLE pawl.run_tags;
ALTER TABLE pawl.runs DROP COLUMN tags;
