//! Makes a data directory of a backup.
//!
//! The restored store is another history: it has another identity, its head is above every revision that was ever given out
//! before, and its log is empty, so every older cursor of any kind is below its oldest revision. The head rises by 2^32 and a random
//! number below it: a backup that is restored twice gives two histories, and a cursor of the first must not look like one of
//! the second. Sessions are not restored; their ids are spent. The access log stays, and its numbers and its chain go on: it is
//! what was seen, whichever history that was of.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::copy::{PartialFile, copy_database};
use super::migration::{MigrationError, migrate};
use super::open::{DATABASE_FILE, LOCK_FILE, connect_for_reading, lock, new_store_id};
use super::rows;
use super::verify::verify_file;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::{CopyError, RestoreError, StoreOpenError, VerifyError};

/// By how much the head rises at least: more than any store commits between its backup and its loss.
const HEAD_RISE_MIN: u64 = 1 << 32;

/// What a restore made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Restored {
    /// The head of the backup.
    pub(crate) backup_head: Revision,
    pub(crate) head: Revision,
    pub(crate) sessions_dropped: usize,
}

/// Whether a backup is restored that contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Refused,
    Accepted,
}

/// Restores a backup into a directory that is empty or absent; `now_ms` is when the sessions' ids were spent.
///
/// # Errors
/// See [`RestoreError`]; there is no store in the directory then.
pub(crate) fn restore(
    backup: &Path,
    directory: &Path,
    damage: Damage,
    now_ms: i64,
) -> Result<Restored, RestoreError> {
    let unreadable = |problem: String| RestoreError::Backup {
        file: backup.to_owned(),
        problem,
    };
    let in_directory = |source| StoreOpenError::Directory {
        directory: directory.to_owned(),
        source,
    };
    let database = directory.join(DATABASE_FILE);
    if !std::fs::metadata(backup)
        .map_err(|error| unreadable(error.to_string()))?
        .is_file()
    {
        return Err(unreadable("it is no file".to_owned()));
    }
    std::fs::create_dir_all(directory).map_err(in_directory)?;
    let not_empty = || RestoreError::NotEmpty {
        directory: directory.to_owned(),
    };
    let is_empty = is_empty(directory).map_err(in_directory)?;
    // No lock is left in a directory that never was a store's; in one that is, it says whether a process has it.
    if !is_empty && !directory.join(LOCK_FILE).exists() {
        return Err(not_empty());
    }
    let _lock = lock(directory)?;
    if !is_empty {
        return Err(not_empty());
    }

    let partial = PartialFile::create(&database).map_err(|error| copy_failed(error, backup, directory))?;
    let mut source = connect_for_reading(backup).map_err(|error| unreadable(error.to_string()))?;
    check_is_feed(&source, backup)?;
    copy_database(&mut source, partial.path(), &|| false)
        .map_err(|error| copy_failed(error, backup, directory))?;
    drop(source);
    let restored = begin_history(partial.path(), backup, damage, now_ms)?;
    File::open(partial.path())
        .and_then(|file| file.sync_all())
        .map_err(in_directory)?;
    partial
        .publish(&database)
        .map_err(|error| copy_failed(error, backup, directory))?;
    sync_directory(directory).map_err(in_directory)?;
    Ok(restored)
}

/// Whether a directory has nothing in it but the lock, and half a file that a killed restore left.
fn is_empty(directory: &Path) -> Result<bool, std::io::Error> {
    let partial_name = format!("{DATABASE_FILE}.partial");
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name != LOCK_FILE && name != partial_name.as_str() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks that a file is a whole database with a feed in it.
fn check_is_feed(source: &Connection, backup: &Path) -> Result<(), RestoreError> {
    let unreadable = |problem: String| RestoreError::Backup {
        file: backup.to_owned(),
        problem,
    };
    let check: Result<String, _> = source.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match check {
        Ok(outcome) if outcome == "ok" => {}
        Ok(problem) => return Err(unreadable(problem)),
        Err(error) => return Err(unreadable(error.to_string())),
    }
    let feeds: Result<i64, _> = source.query_row("SELECT count(*) FROM feed", [], |row| row.get(0));
    match feeds {
        Ok(1) => Ok(()),
        Ok(_) | Err(_) => Err(unreadable("it is no backup of a feed".to_owned())),
    }
}

/// Checks the copy, as long as it has its log: afterwards nothing tells any more what a record should be.
fn check_contents(copy: &Path, backup: &Path) -> Result<(), RestoreError> {
    let unreadable = |error: VerifyError| RestoreError::Backup {
        file: backup.to_owned(),
        problem: error.to_string(),
    };
    let findings = verify_file(copy).map_err(unreadable)?.findings;
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(RestoreError::Damaged {
            file: backup.to_owned(),
            findings: findings.len(),
            first: format!("{}: {}", first.place, first.problem),
        }),
    }
}

/// Brings a copy to the newest version and makes another history of it.
fn begin_history(copy: &Path, backup: &Path, damage: Damage, now_ms: i64) -> Result<Restored, RestoreError> {
    let unreadable = |problem: String| RestoreError::Backup {
        file: backup.to_owned(),
        problem,
    };
    let failed = |error: rusqlite::Error| unreadable(error.to_string());
    let store_id = new_store_id().map_err(|error| unreadable(error.to_string()))?;
    let rise = HEAD_RISE_MIN + u64::from(getrandom::u32().map_err(|error| unreadable(error.to_string()))?);
    let mut connection = Connection::open(copy).map_err(failed)?;
    migrate(&mut connection, &store_id).map_err(|error| match error {
        MigrationError::Newer { found, supported } => RestoreError::Open(StoreOpenError::Newer {
            file: backup.to_owned(),
            found,
            supported,
        }),
        MigrationError::Database(error) => failed(error),
    })?;
    if damage == Damage::Refused {
        check_contents(copy, backup)?;
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let backup_head = transaction
        .query_row("SELECT head FROM feed", [], |row| rows::revision(row, 0))
        .map_err(failed)?;
    let head = Revision(backup_head.0.saturating_add(rise));
    let hash = ChainHash::genesis(&store_id);
    let sessions_dropped = transaction
        .execute(
            "INSERT OR REPLACE INTO spent_session (id, removed_ms) SELECT id, ?1 FROM session",
            [now_ms],
        )
        .map_err(failed)?;
    transaction
        .execute_batch(
            "DELETE FROM subscription; DELETE FROM session; DELETE FROM session_count; UPDATE session_total SET sessions = 0;
             DELETE FROM log; DELETE FROM log_block;",
        )
        .map_err(failed)?;
    transaction
        .execute(
            "UPDATE feed SET store_id = ?1, head = ?2, head_hash = ?3, oldest = ?4, base_hash = ?3, log_bytes = 0",
            (&store_id, head, hash.as_bytes(), head.next()),
        )
        .map_err(failed)?;
    transaction.commit().map_err(failed)?;
    // Most of a store is its log, so most of the file is free now.
    connection.execute_batch("VACUUM").map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    Ok(Restored {
        backup_head,
        head,
        sessions_dropped,
    })
}

fn copy_failed(error: CopyError, backup: &Path, directory: &Path) -> RestoreError {
    match error {
        CopyError::File(source) => RestoreError::Open(StoreOpenError::Directory {
            directory: directory.to_owned(),
            source,
        }),
        CopyError::Exists => RestoreError::NotEmpty {
            directory: directory.to_owned(),
        },
        CopyError::NoDirectory | CopyError::InsideStore => RestoreError::Backup {
            file: backup.to_owned(),
            problem: error.to_string(),
        },
        CopyError::Store(error) => RestoreError::Backup {
            file: backup.to_owned(),
            problem: error.to_string(),
        },
        CopyError::Cancelled => RestoreError::Backup {
            file: backup.to_owned(),
            problem: "the copy was cancelled".to_owned(),
        },
    }
}

/// Makes the names in a directory durable, and its own.
fn sync_directory(directory: &Path) -> Result<(), std::io::Error> {
    File::open(directory)?.sync_all()?;
    let parent = directory
        .canonicalize()?
        .parent()
        .map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
    File::open(parent)?.sync_all()
}
