//! The whole check: of a running store, of a data directory, of a backup.

use std::path::Path;

use super::report::Report;
use super::{access, blocks, database, indexes, log, tables};
use crate::store::sqlite::open::{DATABASE_FILE, check_version, connect_for_reading, lock};
use crate::store::sqlite::read::SqliteReader;
use crate::store::{StoreError, Verification, VerifyError};

/// Checks everything but the database's own structure.
pub(in crate::store::sqlite) fn verify(
    reader: &SqliteReader,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Verification, StoreError> {
    let mut report = Report::new(is_cancelled);
    check_contents(reader, &mut report)?;
    Ok(report.verification)
}

/// Checks the store in a data directory that no process has open.
pub(crate) fn verify_directory(directory: &Path) -> Result<Verification, VerifyError> {
    let file = directory.join(DATABASE_FILE);
    if !file.is_file() {
        return Err(VerifyError::NoStore {
            path: directory.to_owned(),
        });
    }
    let _lock = lock(directory)?;
    verify_file(&file)
}

/// Checks the store in a file that nobody writes, for example a backup.
pub(crate) fn verify_file(file: &Path) -> Result<Verification, VerifyError> {
    let unreadable = |problem: String| VerifyError::Unreadable {
        path: file.to_owned(),
        problem,
    };
    if !file.is_file() {
        return Err(VerifyError::NoStore {
            path: file.to_owned(),
        });
    }
    let mut report = Report::new(&|| false);
    let connection = connect_for_reading(file).map_err(|error| unreadable(error.to_string()))?;
    check_version(&connection, file)?;
    let structure = database::check(&connection, &mut report);
    report
        .take(structure)
        .map_err(|error| unreadable(error.to_string()))?;
    drop(connection);
    let reader = SqliteReader::open(file.to_owned()).map_err(|error| unreadable(error.to_string()))?;
    check_contents(&reader, &mut report).map_err(|error| unreadable(error.to_string()))?;
    Ok(report.verification)
}

/// One line per subject.
fn check_contents(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    let outcome = log::check(reader, report);
    report.take(outcome)?;
    let outcome = blocks::check(reader, report);
    report.take(outcome)?;
    let outcome = tables::check(reader, report);
    report.take(outcome)?;
    let outcome = indexes::check(reader, report);
    report.take(outcome)?;
    let outcome = access::check(reader, report);
    report.take(outcome)
}
