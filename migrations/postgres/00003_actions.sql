-- +goose NO TRANSACTION
-- +goose Up
-- Lists by the end: the order is the index's own, so that no plan sorts.
CREATE INDEX CONCURRENTLY IF NOT EXISTS runs_finished_3 ON pawl.runs (namespace, finished_at, id) WHERE finished_at IS NOT NULL;

-- What people did. It outlives the runs that it was done to.
CREATE TABLE pawl.actions (
    id        uuid   NOT NULL PRIMARY KEY,
    namespace text   COLLATE "C" NOT NULL,
    at        bigint NOT NULL,
    actor     text   COLLATE "C" NOT NULL,     -- user@host
    verb      text   COLLATE "C" NOT NULL,
    target    text   NOT NULL,
    run       uuid,
    details   text   NOT NULL
);
CREATE INDEX actions_at ON pawl.actions (namespace, at);
CREATE INDEX actions_run ON pawl.actions (run, at) WHERE run IS NOT NULL;

DROP INDEX pawl.runs_finished;
ALTER INDEX pawl.runs_finished_3 RENAME TO runs_finished;

-- +goose Down
DROP INDEX pawl.runs_finished;
CREATE INDEX runs_finished ON pawl.runs (namespace, finished_at) WHERE finished_at IS NOT NULL;
DROP TABLE pawl.actions;
