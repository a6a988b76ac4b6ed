-- The seal on a person's word: the key's name, a colon, hex digits. What was said before words were
-- sealed has none, and is told from what was forged by its number.
ALTER TABLE entry ADD COLUMN seal TEXT;
INSERT OR REPLACE INTO meta (name, value)
    SELECT 'sealed_from', CAST(coalesce(max(seq), 0) + 1 AS TEXT) FROM entry;
