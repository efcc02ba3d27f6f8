-- +goose Up
-- The channel on which the worker's process hears of work that is meant for it.
ALTER TABLE pawl.workers ADD COLUMN channel text;

-- +goose Down
ALTER TABLE pawl.workers DROP COLUMN channel;
