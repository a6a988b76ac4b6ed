-- Jobs that workers claim, oldest first, and what their steps left.
CREATE TABLE job_queue (
    number INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    -- When it was last written, by this machine's clock, in milliseconds.
    stamped_at INTEGER NOT NULL,
    -- From when on it may be claimed; never, if nothing is said.
    free_at INTEGER,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX job_queue_by_time ON job_queue (free_at, number) WHERE free_at IS NOT NULL;
CREATE TABLE job_artifact (
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, name)
) STRICT;
