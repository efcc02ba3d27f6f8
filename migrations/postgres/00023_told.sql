-- A statement that starts or ends many runs may leave the marks of limits itself, in one insert. A trigger takes several
-- times as long for each run. The triggers do not fire for a statement that sets told: 0 where it creates the run, the
-- epoch of the lease where it ends it. No other statement may change told.
--
-- Older programs still work, also beside newer ones: their statements leave told as it is, so that the triggers fire.

-- +goose Up
ALTER TABLE pawl.runs ADD COLUMN told bigint;

CREATE OR REPLACE TRIGGER limit_came AFTER INSERT ON pawl.runs FOR EACH ROW
    WHEN (NEW.flow IS NOT NULL AND NEW.told IS NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4)
    EXECUTE FUNCTION pawl.limit_came();
CREATE OR REPLACE TRIGGER limit_changed AFTER UPDATE ON pawl.runs FOR EACH ROW
    WHEN ((OLD.flow IS NOT NULL OR NEW.flow IS NOT NULL) AND (NOT NEW.leased OR OLD.step_under IS NOT NULL) AND NEW.told IS NOT DISTINCT FROM OLD.told)
    EXECUTE FUNCTION pawl.limit_changed();

-- +goose Down
CREATE OR REPLACE TRIGGER limit_came AFTER INSERT ON pawl.runs FOR EACH ROW
    WHEN (NEW.flow IS NOT NULL AND NOT NEW.leased AND NEW.visible_at IS NOT NULL AND NEW.status <> 4)
    EXECUTE FUNCTION pawl.limit_came();
CREATE OR REPLACE TRIGGER limit_changed AFTER UPDATE ON pawl.runs FOR EACH ROW
    WHEN ((OLD.flow IS NOT NULL OR NEW.flow IS NOT NULL) AND (NOT NEW.leased OR OLD.step_under IS NOT NULL))
    EXECUTE FUNCTION pawl.limit_changed();
ALTER TABLE pawl.runs DROP COLUMN told;
