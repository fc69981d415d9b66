//! Opens the store of a data directory, for this process alone.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FlockOperation, flock};

use super::migration::{MigrationError, NEWEST_VERSION, migrate};
use super::read::SqliteReader;
use super::write::SqliteWriter;
use crate::store::StoreOpenError;

/// The database's file in the data directory.
pub(super) const DATABASE_FILE: &str = "feed.sqlite";
/// The file whose lock says that a process has the directory.
pub(super) const LOCK_FILE: &str = "lock";
/// How long a connection waits for a lock of SQLite's own. Readers never wait in write-ahead mode except for a moment
/// while the log is reset, and there is one writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The writer's page cache. It holds the inner pages of tables and indexes of some million records.
const WRITER_CACHE_KIB: i64 = 64 * 1024;

/// `PRAGMA synchronous` in its numeric form: the write-ahead log is synced at every commit.
const SYNCHRONOUS_FULL: i64 = 2;
/// How much has to fit onto the disk before the store counts as writable again: more than nearly every transaction, so that the state does
/// not change with every commit.
const PROBE_BYTES: usize = 4 * 1024 * 1024;

/// Both halves of an open store.
pub(crate) struct OpenedStore {
    pub(crate) reader: Arc<SqliteReader>,
    pub(crate) writer: SqliteWriter,
}

/// Opens the store in `directory`, and makes both where they are missing.
///
/// # Errors
/// See the variants; nothing was changed except that the directory may have been made.
pub(crate) fn open(directory: &Path) -> Result<OpenedStore, StoreOpenError> {
    let in_directory = |source| StoreOpenError::Directory {
        directory: directory.to_owned(),
        source,
    };
    if directory.exists() && !directory.is_dir() {
        return Err(in_directory(Error::new(
            ErrorKind::NotADirectory,
            "it is not a directory",
        )));
    }
    std::fs::create_dir_all(directory).map_err(in_directory)?;
    let lock = lock(directory)?;
    // SQLite tells the cause of such failures badly, so find out by writing.
    probe(directory, b"x").map_err(in_directory)?;

    let file = directory.join(DATABASE_FILE);
    let refused = |problem: String| StoreOpenError::Database {
        file: file.clone(),
        problem,
    };
    let store_id = new_store_id().map_err(in_directory)?;
    let mut connection = connect_for_writing(&file).map_err(|error| refused(error.to_string()))?;
    check_durability(&connection).map_err(refused)?;
    migrate(&mut connection, &store_id).map_err(|error| match error {
        MigrationError::Newer { found, supported } => StoreOpenError::Newer {
            file: file.clone(),
            found,
            supported,
        },
        MigrationError::Database(error) => refused(error.to_string()),
    })?;
    let reader = SqliteReader::open(file.clone()).map_err(|error| refused(error.to_string()))?;
    Ok(OpenedStore {
        reader: Arc::new(reader),
        writer: SqliteWriter::new(connection, directory.to_owned(), lock),
    })
}

/// Takes the directory's lock, which lives as long as the file that is returned.
pub(super) fn lock(directory: &Path) -> Result<File, StoreOpenError> {
    let in_directory = |source| StoreOpenError::Directory {
        directory: directory.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(LOCK_FILE))
        .map_err(in_directory)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(error) if Error::from(error).kind() == ErrorKind::WouldBlock => Err(StoreOpenError::Locked {
            directory: directory.to_owned(),
        }),
        Err(error) => Err(in_directory(error.into())),
    }
}

/// Checks that a store is of a version that this program knows.
pub(super) fn check_version(connection: &Connection, file: &Path) -> Result<(), StoreOpenError> {
    let found: i64 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|error| StoreOpenError::Database {
            file: file.to_owned(),
            problem: error.to_string(),
        })?;
    if found > NEWEST_VERSION {
        return Err(StoreOpenError::Newer {
            file: file.to_owned(),
            found,
            supported: NEWEST_VERSION,
        });
    }
    Ok(())
}

/// Finds out whether the directory takes a usual transaction.
pub(super) fn probe_room(directory: &Path) -> Result<(), Error> {
    probe(directory, &vec![0; PROBE_BYTES])
}

fn probe(directory: &Path, content: &[u8]) -> Result<(), Error> {
    let file = directory.join("probe");
    let written = std::fs::write(&file, content);
    // Also what was written in part, or left by a process that was killed.
    let removed = std::fs::remove_file(&file);
    written.and(removed)
}

/// Returns 128 random bits as hex digits.
pub(super) fn new_store_id() -> Result<String, Error> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns bytes that nobody can guess.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| Error::other(error.to_string()))?;
    Ok(bytes)
}

pub(super) fn connect_for_writing(file: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Every commit reaches the disk before it is acknowledged.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // A checkpoint every 16 MiB: rarer than the default, so that hot pages are written once for many commits.
    connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
    connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}

/// Reads back what a promise rests on: SQLite leaves the journal mode as it is, without an error, where a file system cannot have another.
pub(super) fn check_durability(connection: &Connection) -> Result<(), String> {
    let read = |name: &str| {
        let value = connection.pragma_query_value(None, name, |row| row.get::<_, Value>(0));
        value.map_err(|error| error.to_string())
    };
    let (journal_mode, synchronous) = (read("journal_mode")?, read("synchronous")?);
    if journal_mode == Value::Text("wal".to_owned()) && synchronous == Value::Integer(SYNCHRONOUS_FULL) {
        return Ok(());
    }
    Err(format!(
        "its commits would not be durable: journal_mode is {journal_mode:?}, synchronous is {synchronous:?}; use another file system"
    ))
}

/// Opens one more connection for reads.
pub(super) fn connect_for_reading(file: &Path) -> Result<Connection, rusqlite::Error> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A damaged page is noticed when it is loaded, rather than taken for one without the record.
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}
