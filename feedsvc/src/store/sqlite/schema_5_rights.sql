-- Sessions have a level and their owner's address, and are counted; the access log.

ALTER TABLE session ADD COLUMN owner_address TEXT NOT NULL DEFAULT '';
ALTER TABLE session ADD COLUMN log_level TEXT NOT NULL DEFAULT '';

-- How many sessions each principal has. Counted here, since the anonymous one may have very many.
CREATE TABLE session_count (
  principal TEXT PRIMARY KEY NOT NULL,
  sessions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO session_count (principal, sessions) SELECT principal, count(*) FROM session GROUP BY principal;

-- One row: how many there are in all.
CREATE TABLE session_total (sessions INTEGER NOT NULL) STRICT;
INSERT INTO session_total (sessions) SELECT count(*) FROM session;

CREATE TABLE access_log (
  number INTEGER PRIMARY KEY NOT NULL,
  -- By the recorder's clock, and by the store's, which never falls and by which entries get old.
  time_ms INTEGER NOT NULL,
  recorded_ms INTEGER NOT NULL,
  principal TEXT NOT NULL,
  method TEXT NOT NULL,
  -- A feed.v1.AccessEntry.
  entry BLOB NOT NULL,
  hash BLOB NOT NULL
) STRICT;

-- One row once there was an entry: the ends of the access log.
CREATE TABLE access_bounds (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  newest INTEGER NOT NULL,
  newest_hash BLOB NOT NULL,
  -- The oldest number that the log has, and the hash right before it.
  oldest INTEGER NOT NULL,
  base_hash BLOB NOT NULL,
  -- What the kept entries take, about.
  kept_bytes INTEGER NOT NULL
) STRICT;
