//! Reading and writing one record, for the REST surface.

use std::sync::Arc;

use bytes::Bytes;

use tracing::error;

use crate::feed::{Catalog, FeedClient, FeedError, Precondition, StoredRecord, Table, Written};

/// The records of the exported tables, as one principal may see and change them.
pub(crate) struct Records<'a> {
    /// The feed service.
    pub(crate) feed: &'a FeedClient,
    /// The exported tables.
    pub(crate) catalog: Arc<Catalog>,
    /// The name of the principal; empty: anonymous.
    pub(crate) principal: &'a str,
}

/// Why a record was not read or written. Nothing was changed then, except that a write which the feed service did not
/// answer may have been carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordFailure {
    /// The feed service is away or did not answer; the request may be sent again.
    #[error("feed service unavailable")]
    Unavailable,
    /// There is no such table.
    #[error("{0}")]
    UnknownTable(String),
    /// The record breaks the schema, or the request a rule; the text says which.
    #[error("{0}")]
    Invalid(String),
    /// The record or its key is too large; the text names the limit.
    #[error("{0}")]
    TooLarge(String),
    /// A precondition does not hold.
    #[error("{0}")]
    Conflict(String),
    /// The principal may not do this.
    #[error("permission denied")]
    PermissionDenied,
    /// Something is wrong here; the cause is in the log.
    #[error("internal error")]
    Internal,
}

impl From<FeedError> for RecordFailure {
    fn from(failure: FeedError) -> RecordFailure {
        match failure {
            FeedError::Unavailable | FeedError::Timeout => RecordFailure::Unavailable,
            FeedError::UnknownTable(text) => RecordFailure::UnknownTable(text),
            FeedError::Invalid(text) => RecordFailure::Invalid(text),
            FeedError::TooLarge(text) => RecordFailure::TooLarge(text),
            FeedError::Conflict(text) => RecordFailure::Conflict(text),
            FeedError::PermissionDenied => RecordFailure::PermissionDenied,
            FeedError::UnknownSession
            | FeedError::NoStream
            | FeedError::Fenced
            | FeedError::TooManySubscriptions
            | FeedError::TooManySessions
            | FeedError::Compacted
            | FeedError::LostHistory
            | FeedError::Internal => {
                error!(error = %failure, "the feed service refused what it should not");
                RecordFailure::Internal
            }
        }
    }
}

impl Records<'_> {
    /// Says whether a table is exported under `path`.
    pub(crate) fn serves(&self, path: &str) -> bool {
        self.catalog.find(path).is_some()
    }

    /// Reads a record; `None` if it is absent.
    pub(crate) async fn read(&self, path: &str, key: &str) -> Result<Option<StoredRecord>, RecordFailure> {
        let table = self.table(path)?;
        let (record, _revision) = self
            .feed
            .read_record(self.principal, &table.database, &table.name, key)
            .await?;
        Ok(record)
    }

    /// Creates or replaces a record; returns when that is durable.
    pub(crate) async fn put(
        &self,
        path: &str,
        key: &str,
        value: Bytes,
        precondition: Precondition,
    ) -> Result<Written, RecordFailure> {
        let table = self.table(path)?;
        Ok(self
            .feed
            .put_record(
                self.principal,
                &table.database,
                &table.name,
                key,
                value,
                precondition,
            )
            .await?)
    }

    /// Deletes a record; returns when that is durable.
    pub(crate) async fn delete(
        &self,
        path: &str,
        key: &str,
        precondition: Precondition,
    ) -> Result<Written, RecordFailure> {
        let table = self.table(path)?;
        Ok(self
            .feed
            .delete_record(self.principal, &table.database, &table.name, key, precondition)
            .await?)
    }

    fn table(&self, path: &str) -> Result<&Arc<Table>, RecordFailure> {
        self.catalog
            .find(path)
            .ok_or_else(|| RecordFailure::UnknownTable(format!("no table is exported as {path}")))
    }
}
