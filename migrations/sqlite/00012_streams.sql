-- Streams: items that the steps of a run append and that readers follow while the run goes on.
--
-- The columns items and bytes hold the totals of the run after the write that stored the row, so that
-- the last row has the present ones. At most one attempt of a step has items in a stream and a generation.

-- +goose Up
CREATE TABLE stream_items (
    run_id     BLOB    NOT NULL,
    position   INTEGER NOT NULL, -- increases in the run, over all of its streams
    stream     TEXT    NOT NULL,
    branch     TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    occurrence INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    number     INTEGER NOT NULL, -- within the attempt, from 1
    reset      INTEGER NOT NULL, -- 1: the first item of an attempt that has superseded another one
    at         INTEGER NOT NULL,
    items      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL,
    payload    BLOB,
    PRIMARY KEY (run_id, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX stream_items_writer ON stream_items (run_id, stream, branch, step, occurrence, generation, epoch, attempt, number);

-- +goose Down
DROP TABLE stream_items;
