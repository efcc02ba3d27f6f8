-- Streams: items that the steps of a run append and that readers follow while the run goes on.
--
-- The columns items and bytes hold the totals of the run after the write that stored the row, so that
-- the last row has the present ones. At most one attempt of a step has items in a stream and a generation.

-- +goose Up
CREATE TABLE pawl.stream_items (
    run_id     uuid    NOT NULL,
    position   bigint  NOT NULL, -- increases in the run, over all of its streams
    generation bigint  NOT NULL,
    epoch      bigint  NOT NULL,
    number     bigint  NOT NULL, -- within the attempt, from 1
    at         bigint  NOT NULL,
    bytes      bigint  NOT NULL,
    items      integer NOT NULL,
    occurrence integer NOT NULL,
    attempt    integer NOT NULL,
    reset      boolean NOT NULL, -- the first item of an attempt that has superseded another one
    stream     text    COLLATE "C" NOT NULL,
    branch     text    COLLATE "C" NOT NULL,
    step       text    COLLATE "C" NOT NULL,
    payload    bytea,
    PRIMARY KEY (run_id, position)
);

CREATE UNIQUE INDEX stream_items_writer ON pawl.stream_items (run_id, stream, branch, step, occurrence, generation, epoch, attempt, number);

-- +goose Down
DROP TABLE pawl.stream_items;
