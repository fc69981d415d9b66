//! What a check has found so far.

use rusqlite::ErrorCode;

use crate::store::{Finding, Place, StoreError, Verification};

/// How many findings are kept (maintenance.proto, `VerifyResponse`).
const FINDINGS_MAX: usize = 100;

/// How much one read transaction of a check looks at: some milliseconds of work.
pub(super) const PAGE_ROWS: usize = 500;
pub(super) const PAGE_LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// Collects findings, and knows when to stop.
pub(super) struct Report<'a> {
    pub(super) verification: Verification,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Report<'a> {
    pub(super) fn new(is_cancelled: &'a dyn Fn() -> bool) -> Report<'a> {
        Report {
            verification: Verification::default(),
            is_cancelled,
        }
    }

    /// Notes what does not fit; after the first hundred nothing more is kept.
    pub(super) fn note(&mut self, place: Place, problem: impl Into<String>) {
        if self.verification.findings.len() < FINDINGS_MAX {
            self.verification.findings.push(Finding {
                place,
                problem: problem.into(),
            });
        }
    }

    /// Asked between two pages.
    pub(super) fn check_goes_on(&self) -> Result<(), StoreError> {
        if (self.is_cancelled)() {
            return Err(StoreError::Interrupted);
        }
        Ok(())
    }

    /// Takes the outcome of one check: damage that keeps it from going on is a finding too, any other failure ends everything.
    pub(super) fn take(&mut self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        match outcome {
            Ok(()) => Ok(()),
            Err(StoreError::Damaged { problem, revision }) => {
                self.note(Place::Log { revision }, problem);
                Ok(())
            }
            Err(StoreError::DamagedFile { place, problem }) => {
                self.note(Place::Database, format!("{place} cannot be read, {problem}"));
                Ok(())
            }
            Err(StoreError::Database(error)) if is_damage(&error) => {
                self.note(Place::Database, error.to_string());
                Ok(())
            }
            Err(
                error @ (StoreError::Database(_)
                | StoreError::Disk(_)
                | StoreError::Compacted { .. }
                | StoreError::BeyondHead { .. }
                | StoreError::Interrupted),
            ) => Err(error),
        }
    }
}

/// Whether the database says that it is damaged, or holds what it never would.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => matches!(
            failure.code,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
        ),
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => true,
        _ => false,
    }
}
