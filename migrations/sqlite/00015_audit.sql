-- +goose Up
-- Actions are recorded with their effects: what came of each, and from where it was done. An action of an
-- earlier version has neither.
ALTER TABLE actions ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE actions ADD COLUMN outcome TEXT NOT NULL DEFAULT ''; -- done, no change, or why it was refused

-- +goose Down
ALTER TABLE actions DROP COLUMN outcome;
ALTER TABLE actions DROP COLUMN origin;
