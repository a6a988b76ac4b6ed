-- Failures that memory knows. An id is never used twice, so "what was added after id n" has an answer.
CREATE TABLE failure (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    signature  INTEGER NOT NULL UNIQUE, -- the 64 bits, as a signed number
    class      TEXT NOT NULL,
    error_type TEXT NOT NULL,
    normalized TEXT NOT NULL,
    identity   TEXT,
    first_seen INTEGER NOT NULL,           -- microseconds since 1970, UTC
    last_seen  INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    remedies   INTEGER NOT NULL,           -- how many are known
    withdrawn  INTEGER NOT NULL DEFAULT 0  -- 1: a person took it out of the shared file
) STRICT;
CREATE INDEX failure_by_time ON failure (last_seen);
CREATE INDEX failure_with_remedy ON failure (last_seen) WHERE remedies > 0;

-- The remedies known for a failure, and what came of them.
CREATE TABLE remedy (
    failure  INTEGER NOT NULL REFERENCES failure (id) ON DELETE CASCADE,
    digest   BLOB NOT NULL,
    kind     TEXT NOT NULL,
    text     TEXT NOT NULL,
    since    INTEGER NOT NULL,
    by       TEXT NOT NULL,
    record   TEXT NOT NULL, -- JSON
    outcomes TEXT NOT NULL, -- JSON
    PRIMARY KEY (failure, digest)
) STRICT, WITHOUT ROWID;

-- The items of the files that people may edit, and what those files said when last in step.
CREATE TABLE learned (
    file  TEXT NOT NULL,
    key   TEXT NOT NULL,
    place INTEGER NOT NULL,
    data  TEXT NOT NULL, -- JSON
    PRIMARY KEY (file, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE learned_file (
    file   TEXT PRIMARY KEY,
    digest TEXT NOT NULL, -- of the file's bytes
    items  TEXT NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

-- Tells an index of near matches made from this memory from one made from another.
INSERT INTO meta (name, value) VALUES ('memory', lower(hex(randomblob(8))));
