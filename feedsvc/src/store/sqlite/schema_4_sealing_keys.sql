-- The keys by which gateways seal what clients give back; the newest seals, the one before it is still accepted.
CREATE TABLE sealing_key (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  secret BLOB NOT NULL,
  made_ms INTEGER NOT NULL
) STRICT;
