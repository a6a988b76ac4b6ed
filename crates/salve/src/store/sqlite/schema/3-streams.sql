-- The entries that name a loop in their data, by the loop.
CREATE INDEX entry_by_loop
    ON entry (CASE WHEN json_valid(data) THEN coalesce(data ->> 'id', data ->> 'name') END, seq)
    WHERE kind IN ('loop', 'loop_attached', 'loop_detached', 'manifests_seen', 'recovery_refused');
