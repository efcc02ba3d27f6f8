-- Debounce: starts that replace what a run was started with.

-- +goose Up
-- The last run that was created with a key. A start locks its row until it is durable.
CREATE TABLE pawl.debounces (
    namespace text COLLATE "C" NOT NULL,
    workflow  text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    run_id    uuid,
    PRIMARY KEY (namespace, workflow, key)
) WITH (fillfactor = 70);
CREATE INDEX debounces_run ON pawl.debounces (run_id);

-- The starts that have replaced, for as long as they are known.
CREATE TABLE pawl.debounced_starts (
    namespace text   COLLATE "C" NOT NULL,
    id        uuid   NOT NULL, -- of the start
    run_id    uuid   NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX debounced_starts_run ON pawl.debounced_starts (run_id, at);

-- +goose Down
DROP TABLE pawl.debounced_starts;
DROP TABLE pawl.debounces;
