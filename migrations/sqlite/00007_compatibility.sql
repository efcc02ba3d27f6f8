-- +goose Up
-- One row: the oldest schema version that a program must know to use this schema. A
-- migration that older programs cannot work with raises it; see docs/schema.md.
CREATE TABLE compatibility (
    minimum INTEGER NOT NULL
) STRICT;
INSERT INTO compatibility (minimum) VALUES (7);

-- +goose Down
DROP TABLE compatibility;
