//! Makes a copy of the store while it runs: all of one moment, durable, and never half of it under the copy's name.
//!
//! SQLite's online copy takes the pages as they are, which is as fast as the disk. Vacuuming into a file would make a smaller
//! copy, but it builds every index anew, and for as long as a snapshot is held the write-ahead log cannot begin again. The copy runs inside of
//! one read transaction: without it, it would begin anew at every commit.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, TransactionBehavior};

use super::open::connect_for_reading;
use super::rows;
use crate::store::{Copied, CopyError};

/// How many pages are copied between two looks at whether to go on: 1 MiB.
const PAGES_PER_STEP: i32 = 256;

/// A file that is removed unless it was kept.
pub(super) struct PartialFile {
    path: PathBuf,
    is_kept: bool,
}

/// Copies the store in `source` to the new file `target`.
pub(super) fn copy(
    source: &Path,
    target: &Path,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Copied, CopyError> {
    let directory = target
        .parent()
        .ok_or_else(|| Error::from(ErrorKind::InvalidFilename))?;
    check_directory(source, directory)?;
    // A link that leads nowhere is something too.
    match target.symlink_metadata() {
        Ok(_) => return Err(CopyError::Exists),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let partial = PartialFile::create(target)?;
    let mut connection = connect_for_reading(source)?;
    let head = copy_database(&mut connection, partial.path(), is_cancelled)?;
    let file = File::open(partial.path())?;
    file.sync_all()?;
    let size_bytes = file.metadata()?.len();
    if is_cancelled() {
        return Err(CopyError::Cancelled);
    }
    partial.publish(target)?;
    File::open(directory)?.sync_all()?;
    Ok(Copied { head, size_bytes })
}

/// Checks that the copy's directory is there, and is not in that of the store, where it would be taken for a part of it and be lost with it.
fn check_directory(source: &Path, directory: &Path) -> Result<(), CopyError> {
    let directory = match directory.canonicalize() {
        Ok(directory) if directory.is_dir() => directory,
        Ok(_) => return Err(CopyError::NoDirectory),
        Err(error) => {
            return Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => CopyError::NoDirectory,
                _ => error.into(),
            });
        }
    };
    if let Some(store) = source.parent()
        && directory.starts_with(store.canonicalize()?)
    {
        return Err(CopyError::InsideStore);
    }
    Ok(())
}

/// Copies a database into an empty file, which then needs no other files beside it; returns the head of what was copied.
pub(super) fn copy_database(
    source: &mut Connection,
    target: &Path,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<crate::revision::Revision, CopyError> {
    let transaction = source.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let head = transaction.query_row("SELECT head FROM feed", [], |row| rows::revision(row, 0))?;
    let mut copy = Connection::open(target)?;
    // A copy that is not whole is thrown away, and one that is whole is synchronised at its end.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    {
        let backup = Backup::new(&transaction, &mut copy)?;
        loop {
            if is_cancelled() {
                return Err(CopyError::Cancelled);
            }
            // Nobody else has the copy, and the source is in a snapshot of its own: it cannot stay busy.
            if backup.step(PAGES_PER_STEP)? == StepResult::Done {
                break;
            }
        }
    }
    drop(copy);
    // The copied header says write-ahead mode, in which even a reader makes files beside the database.
    let copy = Connection::open(target)?;
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(head)
}

impl PartialFile {
    /// Makes the empty file that is to become `target`; only its owner may read it. One that a crash left is made anew.
    pub(super) fn create(target: &Path) -> Result<PartialFile, CopyError> {
        let mut path = target.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(PartialFile { path, is_kept: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, unless something else has it by now.
    pub(super) fn publish(mut self, target: &Path) -> Result<(), CopyError> {
        match std::fs::hard_link(&self.path, target) {
            // The first name goes when this is dropped.
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(CopyError::Exists),
            // A file system without links: as good as it can be there.
            Err(_) if !target.try_exists()? => {
                std::fs::rename(&self.path, target)?;
                self.is_kept = true;
                Ok(())
            }
            Err(_) => Err(CopyError::Exists),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // What cannot be removed is made anew by the next copy.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
