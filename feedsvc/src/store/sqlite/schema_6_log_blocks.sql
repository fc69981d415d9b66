-- A reader that is behind what is in memory gets entries in blocks, not one by one.

-- The entries `first` to `last` as the answer of a watch carries them: a copy of what `log` has, without the records. Entries of an
-- older version of the store are in no block.
CREATE TABLE log_block (
  last INTEGER PRIMARY KEY NOT NULL,
  first INTEGER NOT NULL,
  entries BLOB NOT NULL
) STRICT;
