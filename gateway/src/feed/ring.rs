//! The ring: the newest entries of the feed, in order, bounded by bytes.
//!
//! One writer (the watch) appends, readers pull after a cursor of their own, and a bell tells them that there is more.
//! The ring never waits for a reader and knows none.

use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use thiserror::Error;
use tokio::sync::watch;

use super::entry::Entry;
use crate::protocol::cursor::FeedIdentity;

/// The newest entries of the feed.
pub(crate) struct Ring {
    inner: RwLock<Inner>,
    /// The revision of the newest entry; a bell, and nothing more.
    head: watch::Sender<u64>,
}

/// Invariant: every entry of the feed with a revision in `after + 1 ..= head` is in `entries`, in order.
struct Inner {
    epoch: u64,
    feed: FeedIdentity,
    after: u64,
    head: u64,
    entries: VecDeque<Entry>,
    size_bytes: usize,
    limit_bytes: usize,
}

/// The ring no longer has everything after a cursor.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the ring begins after revision {after}")]
pub(crate) struct Behind {
    /// The smallest cursor that the ring can serve.
    pub(crate) after: u64,
}

impl Ring {
    /// Makes an empty ring that keeps at most about `limit_bytes` of entries, and always the newest one.
    pub(crate) fn new(limit_bytes: usize) -> Ring {
        let inner = Inner {
            epoch: 0,
            feed: FeedIdentity::NONE,
            after: 0,
            head: 0,
            entries: VecDeque::new(),
            size_bytes: 0,
            limit_bytes,
        };
        Ring {
            inner: RwLock::new(inner),
            head: watch::Sender::new(0),
        }
    }

    /// Forgets everything and goes on after `revision`, in another history: that of `feed`.
    pub(crate) fn reset(&self, revision: u64, feed: FeedIdentity) {
        let mut inner = self.write();
        inner.epoch += 1;
        inner.feed = feed;
        inner.entries.clear();
        inner.size_bytes = 0;
        inner.after = revision;
        inner.head = revision;
        drop(inner);
        self.head.send_replace(revision);
    }

    /// Appends entries with rising revisions above the head, moves the head to `progress`, and rings.
    ///
    /// Entries at or below the head are left out: they came twice. The oldest go while there is too much, but none above
    /// `keep_after`, the cursor of the one reader that must not fall behind.
    pub(crate) fn append(&self, entries: impl IntoIterator<Item = Entry>, progress: u64, keep_after: u64) {
        let mut inner = self.write();
        for entry in entries {
            if entry.revision > inner.head {
                inner.head = entry.revision;
                inner.size_bytes += entry.size_bytes();
                inner.entries.push_back(entry);
            }
        }
        inner.head = inner.head.max(progress);
        while inner.is_full()
            && inner
                .entries
                .front()
                .is_some_and(|oldest| oldest.revision <= keep_after)
        {
            if let Some(oldest) = inner.entries.pop_front() {
                inner.after = oldest.revision;
                inner.size_bytes -= oldest.size_bytes();
            }
        }
        let head = inner.head;
        drop(inner);
        self.head.send_replace(head);
    }

    /// Says whether the ring has more than its limit, because `keep_after` held entries back.
    pub(super) fn is_full(&self) -> bool {
        self.read().is_full()
    }

    /// Returns how much memory its entries take, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.read().size_bytes
    }

    /// Returns the revision up to which the ring has everything.
    pub(crate) fn head(&self) -> u64 {
        self.read().head
    }

    /// Returns how often the history began anew, and the revision after which the ring has everything.
    pub(crate) fn beginning(&self) -> (u64, u64) {
        let inner = self.read();
        (inner.epoch, inner.after)
    }

    /// Returns how often the history began anew, and of which feed it is.
    pub(crate) fn history(&self) -> (u64, FeedIdentity) {
        let inner = self.read();
        (inner.epoch, inner.feed)
    }

    /// Returns of which feed it is, and the revision up to which it has everything.
    pub(crate) fn place(&self) -> (FeedIdentity, u64) {
        let inner = self.read();
        (inner.feed, inner.head)
    }

    /// Returns what [`Ring::history`] and [`Ring::beginning`] do, of one moment.
    pub(crate) fn start(&self) -> (u64, FeedIdentity, u64) {
        let inner = self.read();
        (inner.epoch, inner.feed, inner.after)
    }

    /// Returns the bell: its value is the head.
    pub(crate) fn bell(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Shows the entries with revisions in `after + 1 ..= until`, at most `max`, in order, to `see`.
    ///
    /// Returns the revision up to which everything was seen: `until` (or the head, if that is lower) when nothing was
    /// left for the next call. `see` runs under the ring's read lock: it must not block or call the ring.
    pub(crate) fn visit(
        &self,
        after: u64,
        until: u64,
        max: usize,
        mut see: impl FnMut(&Entry),
    ) -> Result<u64, Behind> {
        let inner = self.read();
        if after < inner.after {
            return Err(Behind { after: inner.after });
        }
        let until = until.min(inner.head);
        let first = inner.entries.partition_point(|entry| entry.revision <= after);
        let mut progress = after;
        let wanted = inner
            .entries
            .range(first..)
            .take_while(|entry| entry.revision <= until);
        for (seen, entry) in wanted.enumerate() {
            if seen == max {
                return Ok(progress);
            }
            see(entry);
            progress = entry.revision;
        }
        Ok(until.max(after))
    }

    // A poisoned lock means that a `see` panicked; the entries themselves are whole.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_full(&self) -> bool {
        self.size_bytes > self.limit_bytes && self.entries.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Body;
    use super::*;

    fn entry(revision: u64) -> Entry {
        Entry {
            revision,
            body: Body::Other,
        }
    }

    fn visited(ring: &Ring, after: u64, until: u64, max: usize) -> Result<(Vec<u64>, u64), Behind> {
        let mut revisions = Vec::new();
        let progress = ring.visit(after, until, max, |entry| revisions.push(entry.revision))?;
        Ok((revisions, progress))
    }

    #[test]
    fn a_reader_sees_exactly_what_comes_after_its_cursor() {
        let ring = Ring::new(1 << 20);
        ring.reset(10, FeedIdentity::NONE);
        ring.append((11..=15).map(entry), 15, 0);
        assert_eq!(
            visited(&ring, 10, u64::MAX, 100),
            Ok((vec![11, 12, 13, 14, 15], 15))
        );
        assert_eq!(visited(&ring, 12, 14, 100), Ok((vec![13, 14], 14)));
        assert_eq!(visited(&ring, 10, u64::MAX, 2), Ok((vec![11, 12], 12)));
        assert_eq!(visited(&ring, 15, u64::MAX, 2), Ok((vec![], 15)));
        assert_eq!(visited(&ring, 9, u64::MAX, 2), Err(Behind { after: 10 }));
    }

    #[test]
    fn entries_that_come_twice_are_kept_once() {
        let ring = Ring::new(1 << 20);
        ring.append((1..=3).map(entry), 3, 0);
        ring.append((2..=4).map(entry), 4, 0);
        assert_eq!(visited(&ring, 0, u64::MAX, 100), Ok((vec![1, 2, 3, 4], 4)));
    }

    #[test]
    fn the_oldest_go_first_but_none_that_the_hub_has_not_seen() {
        let ring = Ring::new(3 * size_of::<Entry>());
        ring.append((1..=10).map(entry), 10, 5);
        assert_eq!(visited(&ring, 5, u64::MAX, 100), Ok((vec![6, 7, 8, 9, 10], 10)));
        assert_eq!(visited(&ring, 4, u64::MAX, 100), Err(Behind { after: 5 }));
        assert!(ring.is_full());
        ring.append([], 10, 10);
        assert_eq!(visited(&ring, 7, u64::MAX, 100), Ok((vec![8, 9, 10], 10)));
        assert!(!ring.is_full());
    }
}
