-- Facts about this file itself.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The journal. Rows are only ever added, in the order of their seq.
CREATE TABLE entry (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL, -- microseconds since 1970, UTC
    by       TEXT NOT NULL,    -- JSON
    incident TEXT,
    kind     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    data     TEXT NOT NULL     -- JSON
) STRICT;
CREATE INDEX entry_by_incident ON entry (incident, seq) WHERE incident IS NOT NULL;
CREATE INDEX entry_by_kind ON entry (kind, seq);
