-- The size of the log is known without reading it, and what goes after a time is found by its age.

-- What the kept entries take, about: kept up to date by every transaction that appends or trims.
ALTER TABLE feed ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE feed SET log_bytes = (
  SELECT coalesce(sum(
    octet_length(entry) + coalesce(octet_length(before), 0) + coalesce(octet_length(after), 0)
    + octet_length(principal) + 2 * octet_length(key) + 128), 0)
  FROM log);

-- Changes whenever somebody wants to know whether a commit works.
ALTER TABLE feed ADD COLUMN probe INTEGER NOT NULL DEFAULT 0;

CREATE INDEX spent_session_by_age ON spent_session (removed_ms);
