-- One row per writing connection: the number of its last committed group. When a connection breaks during
-- COMMIT, this row shows whether that commit happened.
CREATE TABLE writers (
    writer_id  text COLLATE "C" PRIMARY KEY,
    last_group bigint NOT NULL,
    started_at bigint NOT NULL
);
