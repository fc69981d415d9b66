-- Version 1 of the store. Later versions are steps of their own in `migration.rs`; this file never changes.

-- One row: the feed, its identity and its head.
CREATE TABLE feed (
  name TEXT PRIMARY KEY NOT NULL,
  store_id TEXT NOT NULL,
  head INTEGER NOT NULL,
  head_hash BLOB NOT NULL,
  -- The oldest revision that the log has, and the hash right before it.
  oldest INTEGER NOT NULL,
  base_hash BLOB NOT NULL,
  commit_time_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every table there ever was; the records of table n are in the SQL table record_n.
CREATE TABLE feed_table (
  id INTEGER PRIMARY KEY NOT NULL,
  database TEXT NOT NULL,
  name TEXT NOT NULL,
  record_count INTEGER NOT NULL,
  UNIQUE (database, name)
) STRICT;

CREATE TABLE log (
  revision INTEGER PRIMARY KEY NOT NULL,
  commit_time_ms INTEGER NOT NULL,
  principal TEXT NOT NULL,
  -- NULL: a session command; `key` is the session's id then.
  table_id INTEGER,
  key TEXT NOT NULL,
  -- A feed.v1.Entry without the records before and after.
  entry BLOB NOT NULL,
  before BLOB,
  after BLOB,
  hash BLOB NOT NULL
) STRICT;
-- A record's newest revision, and that of a record that is deleted.
CREATE INDEX log_by_record ON log (table_id, key, revision) WHERE table_id IS NOT NULL;
CREATE INDEX log_by_table ON log (table_id, revision) WHERE table_id IS NOT NULL;

CREATE TABLE session (
  id TEXT PRIMARY KEY NOT NULL,
  principal TEXT NOT NULL,
  protocol_version TEXT NOT NULL,
  client_info TEXT NOT NULL,
  client_capabilities TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  last_active_ms INTEGER NOT NULL,
  idle_timeout_ms INTEGER NOT NULL,
  owner_instance TEXT NOT NULL,
  fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE subscription (
  session_id TEXT NOT NULL,
  uri TEXT NOT NULL,
  spelling TEXT NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (session_id, uri)
) STRICT, WITHOUT ROWID;

-- Ids of sessions that are gone: they never live again.
CREATE TABLE spent_session (
  id TEXT PRIMARY KEY NOT NULL,
  removed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE request_key (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash BLOB NOT NULL,
  made_ms INTEGER NOT NULL,
  answer BLOB NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_key_by_age ON request_key (made_ms);
