//! The transaction that is being made, and what becomes visible with it.

use std::sync::Arc;

use bytes::Bytes;

use crate::access::Rights;
use crate::catalog::Catalog;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::ring::RingEntry;
use crate::store::{FeedHead, LogTrim, NewEntry, StoreError, Subject, Transaction, Trimmed};

/// Why a proposal was not applied.
#[derive(Debug)]
pub(super) enum NotApplied {
    /// It is refused; the transaction is as it was before.
    Refused(Refusal),
    /// The store failed; the transaction is lost with all that is in it.
    Lost(StoreError),
}

impl From<Refusal> for NotApplied {
    fn from(refusal: Refusal) -> NotApplied {
        NotApplied::Refused(refusal)
    }
}

impl From<StoreError> for NotApplied {
    fn from(error: StoreError) -> NotApplied {
        NotApplied::Lost(error)
    }
}

/// A transaction with the state that it leaves.
///
/// Invariant: a proposal is checked completely before it writes, so a refused one leaves no trace.
pub(super) struct Draft<'a> {
    pub(super) transaction: Box<dyn Transaction + 'a>,
    pub(super) catalog: Arc<Catalog>,
    /// As the proposals before leave them.
    pub(super) rights: Arc<Rights>,
    head: FeedHead,
    entries: Vec<RingEntry>,
    /// What the log begins with, if the transaction has moved that.
    oldest: Option<Revision>,
    is_dirty: bool,
}

/// Whether a transaction wrote anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Something,
    Nothing,
}

/// What a transaction made, to be published.
pub(super) struct Committed {
    pub(super) written: Written,
    pub(super) head: FeedHead,
    pub(super) entries: Vec<RingEntry>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) oldest: Option<Revision>,
    pub(super) rights: Arc<Rights>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        transaction: Box<dyn Transaction + 'a>,
        head: FeedHead,
        catalog: Arc<Catalog>,
        rights: Arc<Rights>,
    ) -> Draft<'a> {
        Draft {
            transaction,
            catalog,
            rights,
            head,
            entries: Vec::new(),
            oldest: None,
            is_dirty: false,
        }
    }

    /// Returns the newest revision that the transaction has made so far.
    pub(super) fn head(&self) -> Revision {
        self.head.revision
    }

    /// Returns the time of a commit at this moment, which is never before that of an earlier one.
    pub(super) fn commit_time_ms(&mut self, now_ms: i64) -> i64 {
        self.head.commit_time_ms = self.head.commit_time_ms.max(now_ms);
        self.head.commit_time_ms
    }

    /// Appends an entry, which must carry the revision after the head.
    pub(super) fn append(
        &mut self,
        principal: &str,
        subject: Subject<'_>,
        encoded: Bytes,
        before: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let hash = self.head.hash.followed_by(&encoded, before, after);
        let revision = self.head.revision.next();
        self.transaction.append(&NewEntry {
            revision,
            commit_time_ms: self.head.commit_time_ms,
            principal,
            subject,
            encoded: &encoded,
            before,
            after,
            hash,
        })?;
        self.head.revision = revision;
        self.head.hash = hash;
        let table = match subject {
            Subject::Record { table, .. } => Some(table),
            Subject::Session { .. } => None,
        };
        self.entries.push(RingEntry { encoded, hash, table });
        self.is_dirty = true;
        Ok(())
    }

    /// Drops the oldest entries.
    pub(super) fn trim_log(&mut self, trim: &LogTrim) -> Result<Trimmed, StoreError> {
        let trimmed = self.transaction.trim_log(trim)?;
        if trimmed.dropped > 0 {
            self.oldest = Some(trimmed.oldest);
            self.is_dirty = true;
        }
        Ok(trimmed)
    }

    /// Notes that something was written that is not in the log.
    pub(super) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Makes everything durable.
    pub(super) fn commit(self) -> Result<Committed, StoreError> {
        let written = if self.is_dirty {
            self.transaction.commit(&self.head)?;
            Written::Something
        } else {
            Written::Nothing
        };
        Ok(Committed {
            written,
            head: self.head,
            entries: self.entries,
            catalog: self.catalog,
            oldest: self.oldest,
            rights: self.rights,
        })
    }
}
