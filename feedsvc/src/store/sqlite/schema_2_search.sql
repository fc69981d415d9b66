-- Indexes of attributes, and the secrets that sign the cursors of searches.

-- Every index; the entries of index n are in the SQL table index_n.
CREATE TABLE attribute_index (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  table_id INTEGER NOT NULL,
  attribute TEXT NOT NULL,
  -- 0: being built, 1: ready, 2: out of use, its entries are being removed.
  state INTEGER NOT NULL,
  -- While it is being built: every record up to this key is in it.
  built_key TEXT NOT NULL
) STRICT;
CREATE INDEX attribute_index_by_table ON attribute_index (table_id);

-- The newest signs; older ones are still accepted.
CREATE TABLE cursor_secret (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  secret BLOB NOT NULL
) STRICT;
