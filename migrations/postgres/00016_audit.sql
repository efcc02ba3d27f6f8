-- +goose Up
-- Actions are recorded with their effects: what came of each, and from where it was done. An action of an
-- earlier version has neither.
ALTER TABLE pawl.actions ADD COLUMN origin text NOT NULL DEFAULT '';
ALTER TABLE pawl.actions ADD COLUMN outcome text NOT NULL DEFAULT ''; -- done, no change, or why it was refused

-- +goose Down
ALTER TABLE pawl.actions DROP COLUMN outcome;
ALTER TABLE pawl.actions DROP COLUMN origin;
