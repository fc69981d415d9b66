//! Why a store cannot be opened, or cannot do what it is asked to.

use std::path::PathBuf;

use crate::revision::Revision;

/// Why a store could not do what it was asked to; nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The log no longer has what was asked for.
    #[error("the log begins at revision {oldest}")]
    Compacted { oldest: Revision },
    /// The position asked for is above the head.
    #[error("the log ends at revision {head}")]
    BeyondHead { head: Revision },
    /// What is stored contradicts the contract.
    #[error("the store is damaged: {problem} at revision {revision}; restore it from a backup")]
    Damaged {
        problem: &'static str,
        revision: Revision,
    },
    /// A page of the database file is not what was written.
    #[error("the store is damaged: {place} cannot be read, {problem}; restore it from a backup")]
    DamagedFile { place: String, problem: String },
    /// The database itself failed.
    #[error("the database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The file system failed.
    #[error("the data directory cannot be written: {0}")]
    Disk(#[source] std::io::Error),
    /// The task that read was lost, at the end of the process, or was told to stop.
    #[error("the read was interrupted")]
    Interrupted,
}

impl StoreError {
    /// Returns the error with the place where it happened, if it is that of a damaged file.
    pub(super) fn in_place(self, place: impl FnOnce() -> String) -> StoreError {
        match self {
            StoreError::Database(error) if is_damage(&error) => StoreError::DamagedFile {
                place: place(),
                problem: error.to_string(),
            },
            other => other,
        }
    }

    /// Says whether what was asked for cannot be had, while everything else can.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, StoreError::Damaged { .. } | StoreError::DamagedFile { .. })
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase)
    )
}

/// Why a copy of a store could not be made; there is no file then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// There is something at the copy's place.
    #[error("there is a file already")]
    Exists,
    /// The copy's directory is none.
    #[error("its directory does not exist")]
    NoDirectory,
    /// The copy would lie in the directory of the store.
    #[error("it lies in the data directory")]
    InsideStore,
    /// It was told to stop.
    #[error("it was cancelled")]
    Cancelled,
    /// The file cannot be written.
    #[error("{0}")]
    File(#[from] std::io::Error),
    /// The store cannot be read, or the database cannot write the copy.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for CopyError {
    fn from(error: rusqlite::Error) -> CopyError {
        match error.sqlite_error_code() {
            // Only the copy is written.
            Some(rusqlite::ErrorCode::DiskFull) => CopyError::File(std::io::ErrorKind::StorageFull.into()),
            _ => CopyError::Store(error.into()),
        }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreOpenError {
    /// The data directory cannot be made or written.
    #[error("cannot use data directory `{}`: {source}; check the path and its permissions", directory.display())]
    Directory {
        /// The data directory.
        directory: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process has the data directory open.
    #[error("cannot use data directory `{}`: another process has it open; end that one or name another directory", directory.display())]
    Locked {
        /// The data directory.
        directory: PathBuf,
    },
    /// A newer version wrote the store.
    #[error("cannot open store `{}`: it has version {found}, this program knows up to {supported}; use a newer program", file.display())]
    Newer {
        /// The database file.
        file: PathBuf,
        /// The version of the store.
        found: i64,
        /// The newest version that this program knows.
        supported: i64,
    },
    /// The database cannot be opened.
    #[error("cannot open store `{}`: {problem}; restore it from a backup or name another directory", file.display())]
    Database {
        /// The database file.
        file: PathBuf,
        /// What the database said.
        problem: String,
    },
}

/// Why a backup cannot be restored; there is no store in the directory then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The directory has something in it.
    #[error("cannot restore into `{}`: it is not empty; name a new directory", directory.display())]
    NotEmpty { directory: PathBuf },
    /// The backup cannot be read, or is none.
    #[error("cannot restore backup `{}`: {problem}; use another backup", file.display())]
    Backup { file: PathBuf, problem: String },
    /// What is in the backup contradicts itself, which nobody could find out after the restore: the log is left behind.
    #[error(
        "cannot restore backup `{}`: it has {findings} findings, the first: {first}; use another backup, see all with `feedsvc verify \
         --backup`, or take it as it is with --accept-damage",
        file.display()
    )]
    Damaged {
        file: PathBuf,
        findings: usize,
        first: String,
    },
    /// The directory cannot be used, or a newer version made the backup.
    #[error(transparent)]
    Open(#[from] StoreOpenError),
}

/// Why a store cannot be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    /// There is no store in the directory.
    #[error("cannot verify `{}`: there is no store; check the path", path.display())]
    NoStore { path: PathBuf },
    #[error(transparent)]
    Open(#[from] StoreOpenError),
    /// The store cannot be read.
    #[error("cannot verify `{}`: {problem}; check the disk", path.display())]
    Unreadable { path: PathBuf, problem: String },
}
