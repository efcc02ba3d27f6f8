-- +goose Up
-- One row: the oldest schema version that a program must know to use this schema. A
-- migration that older programs cannot work with raises it; see docs/schema.md.
CREATE TABLE pawl.compatibility (
    minimum integer NOT NULL
);
INSERT INTO pawl.compatibility (minimum) VALUES (7);

-- +goose Down
DROP TABLE pawl.compatibility;
