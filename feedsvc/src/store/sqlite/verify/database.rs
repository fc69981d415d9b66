//! The database's own structure: pages, trees, and its indexes against its tables.

use rusqlite::Connection;

use super::report::Report;
use crate::store::{Place, StoreError};

/// Checks everything that SQLite itself can check; in one transaction, so not while somebody writes.
pub(super) fn check(connection: &Connection, report: &mut Report<'_>) -> Result<(), StoreError> {
    let mut statement = connection.prepare("PRAGMA integrity_check(100)")?;
    let mut problems = statement.query([])?;
    while let Some(row) = problems.next()? {
        let problem: String = row.get(0)?;
        if problem != "ok" {
            report.note(Place::Database, problem);
        }
    }
    Ok(())
}
