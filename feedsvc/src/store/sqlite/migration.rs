//! Brings a database to the newest version of its schema.

use rusqlite::{Connection, TransactionBehavior};

use crate::chain::ChainHash;

/// The steps from one version to the next; the version is the number of steps taken, kept in `user_version`.
const STEPS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("schema_2_search.sql"),
    include_str!("schema_3_retention.sql"),
    include_str!("schema_4_sealing_keys.sql"),
    include_str!("schema_5_rights.sql"),
    include_str!("schema_6_log_blocks.sql"),
    include_str!("schema_7_one_seal.sql"),
];

/// The version that this program writes.
pub(super) const NEWEST_VERSION: i64 = STEPS.len() as i64;

/// Why a database cannot be brought to the newest version.
#[derive(Debug, thiserror::Error)]
pub(super) enum MigrationError {
    #[error("version {found} is newer than {supported}")]
    Newer { found: i64, supported: i64 },
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// Takes the missing steps in one transaction; `store_id` becomes the identity of a store that is made now.
pub(super) fn migrate(connection: &mut Connection, store_id: &str) -> Result<(), MigrationError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let Some(missing) = usize::try_from(found).ok().and_then(|taken| STEPS.get(taken..)) else {
        return Err(MigrationError::Newer {
            found,
            supported: NEWEST_VERSION,
        });
    };
    for step in missing {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", NEWEST_VERSION)?;
    if found == 0 {
        let genesis = ChainHash::genesis(store_id);
        transaction.execute(
            "INSERT INTO feed (name, store_id, head, head_hash, oldest, base_hash, commit_time_ms)
             VALUES ('main', ?1, 0, ?2, 1, ?2, 0)",
            (store_id, genesis.as_bytes()),
        )?;
    }
    transaction.commit()?;
    Ok(())
}
