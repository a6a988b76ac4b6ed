-- The line that named the failure: other tables find its signature from it.
ALTER TABLE failure ADD COLUMN key_line TEXT NOT NULL DEFAULT '';
