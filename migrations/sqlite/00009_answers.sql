-- Answers: what a run answers to a signal that it has consumed. A row with answered_at has one: an
-- answer or a failure. The row stays for as long as its run.

-- +goose Up
ALTER TABLE signals ADD COLUMN answered_at INTEGER;
ALTER TABLE signals ADD COLUMN answer BLOB;
ALTER TABLE signals ADD COLUMN failure TEXT;

-- +goose Down
ALTER TABLE signals DROP COLUMN failure;
ALTER TABLE signals DROP COLUMN answer;
ALTER TABLE signals DROP COLUMN answered_at;
