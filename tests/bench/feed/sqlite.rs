//! SQLite alone: a loop that writes the rows of commits with the service's own schema and pragmas, and does nothing else.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::service::{KEYS, record};

/// The service's own, in its steps.
const SCHEMA: [&str; 7] = [
    include_str!("../../../feedsvc/src/store/sqlite/schema.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_2_search.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_3_retention.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_4_sealing_keys.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_5_rights.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_6_log_blocks.sql"),
    include_str!("../../../feedsvc/src/store/sqlite/schema_7_one_seal.sql"),
];

/// An open database.
pub struct SqliteLoop {
    connection: Connection,
    revision: i64,
    random: u64,
}

impl SqliteLoop {
    /// Makes a database with every record.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn open(folder: &Path) -> anyhow::Result<SqliteLoop> {
        let connection = Connection::open(folder.join("alone.sqlite"))?;
        // As in the service's `connect_for_writing`.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "cache_size", -64 * 1024)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        for step in SCHEMA {
            connection.execute_batch(step)?;
        }
        connection.execute_batch(
            "INSERT INTO feed (name, store_id, head, head_hash, oldest, base_hash, commit_time_ms) VALUES ('main', 'alone', 0, x'00', 1, x'00', 0);
             CREATE TABLE record_1 (key TEXT PRIMARY KEY NOT NULL, revision INTEGER NOT NULL, value TEXT NOT NULL) STRICT",
        )?;
        let mut alone = SqliteLoop {
            connection,
            revision: 0,
            random: 1,
        };
        alone.fill()?;
        Ok(alone)
    }

    fn fill(&mut self) -> anyhow::Result<()> {
        let transaction = self.connection.transaction()?;
        for key in 0..KEYS {
            transaction
                .prepare_cached("INSERT INTO record_1 (key, revision, value) VALUES (?1, 0, ?2)")?
                .execute((key.to_string(), record(key, 0)))?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Writes commits for so long, `group` in a transaction; returns how many a second.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn run(&mut self, duration: Duration, group: usize) -> anyhow::Result<f64> {
        let (begin, first) = (Instant::now(), self.revision);
        // Without the cost of making them.
        let (before, after) = (record(1, 1), record(2, 2));
        // As long as an encoded entry without values.
        let (entry, hash) = ([7_u8; 58], [9_u8; 32]);
        while begin.elapsed() < duration {
            let transaction = self
                .connection
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            for _ in 0..group {
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                self.revision += 1;
                let key = ((self.random >> 33) % KEYS).to_string();
                transaction
                    .prepare_cached("UPDATE record_1 SET revision = ?2, value = ?3 WHERE key = ?1")?
                    .execute((&key, self.revision, &after))?;
                transaction
                    .prepare_cached(
                        "INSERT INTO log (revision, commit_time_ms, principal, table_id, key, entry, before, after, hash)
                         VALUES (?1, ?2, '', 1, ?3, ?4, ?5, ?6, ?7)",
                    )?
                    .execute((self.revision, 1_800_000_000_000_i64, &key, entry, before.as_bytes(), after.as_bytes(), hash))?;
            }
            let block = vec![7_u8; group * (entry.len() + 2)];
            transaction
                .prepare_cached("INSERT INTO log_block (last, first, entries) VALUES (?1, ?2, ?3)")?
                .execute((self.revision, self.revision + 1 - i64::try_from(group)?, block))?;
            transaction
                .prepare_cached("UPDATE feed SET head = ?1, head_hash = ?2, commit_time_ms = ?3, log_bytes = log_bytes + ?4")?
                .execute((self.revision, hash, 1_800_000_000_000_i64, 700))?;
            transaction.commit()?;
        }
        Ok((self.revision - first) as f64 / begin.elapsed().as_secs_f64())
    }
}
