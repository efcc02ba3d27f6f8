-- Answers: what a run answers to a signal that it has consumed. A row with answered_at has one: an
-- answer or a failure. The row stays for as long as its run.

-- +goose Up
ALTER TABLE pawl.signals
    ADD COLUMN answered_at bigint,
    ADD COLUMN answer bytea,
    ADD COLUMN failure text;

-- +goose Down
ALTER TABLE pawl.signals
    DROP COLUMN failure,
    DROP COLUMN answer,
    DROP COLUMN answered_at;
