//! The newest entries of the log, encoded once and shared by every watch.
//!
//! Readers pull after their own cursor; the bell only says that there may be more. The ring is bounded by bytes: what it
//! no longer has, a reader takes from the store.

use std::collections::VecDeque;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::chain::ChainHash;
use crate::revision::Revision;

/// What one entry costs besides its bytes: its slot, twice, since the queue doubles when it is full; what `Bytes` shares them by (48 bytes
/// with the allocator's header), and the header and the rounding of the bytes themselves.
const ENTRY_OVERHEAD_BYTES: usize = 2 * size_of::<RingEntry>() + 48 + 16;

/// One entry as the ring keeps it.
#[derive(Clone, Debug)]
pub(crate) struct RingEntry {
    pub(crate) encoded: Bytes,
    /// The log's hash after this entry.
    pub(crate) hash: ChainHash,
}

/// The bounded, shared ring.
#[derive(Debug)]
pub(crate) struct Ring {
    limit_bytes: usize,
    /// Held for short sections only and never across an await: a read copies references, a write moves some in and out.
    recent: RwLock<Recent>,
    bell: watch::Sender<Revision>,
}

/// Invariant: `entries` are the revisions `head - entries.len() + 1 ..= head`.
#[derive(Debug)]
struct Recent {
    entries: VecDeque<RingEntry>,
    head: Revision,
    used_bytes: usize,
}

/// What a reader finds after its cursor.
#[derive(Debug)]
pub(crate) enum RingRead {
    /// Entries right after the cursor, at least one.
    Entries {
        entries: Vec<Bytes>,
        progress: Revision,
        progress_hash: ChainHash,
        head: Revision,
    },
    /// There is nothing after the cursor yet.
    Current,
    /// The ring no longer has the entry right after the cursor; the store has.
    Behind,
}

impl Ring {
    /// Makes an empty ring behind a log whose newest revision is `head`.
    pub(crate) fn new(head: Revision, limit_bytes: usize) -> Ring {
        Ring {
            limit_bytes,
            recent: RwLock::new(Recent {
                entries: VecDeque::new(),
                head,
                used_bytes: 0,
            }),
            bell: watch::Sender::new(head),
        }
    }

    /// Returns the newest published revision.
    pub(crate) fn head(&self) -> Revision {
        *self.bell.borrow()
    }

    /// Returns a bell that rings when the head moves.
    pub(crate) fn bell(&self) -> watch::Receiver<Revision> {
        self.bell.subscribe()
    }

    /// Appends the entries that follow the head, drops the oldest beyond the limit, and rings the bell.
    pub(crate) fn publish(&self, entries: Vec<RingEntry>) {
        let head = {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            for entry in entries {
                recent.used_bytes += entry.encoded.len() + ENTRY_OVERHEAD_BYTES;
                recent.entries.push_back(entry);
                recent.head = recent.head.next();
            }
            while recent.used_bytes > self.limit_bytes {
                let Some(oldest) = recent.entries.pop_front() else {
                    break;
                };
                recent.used_bytes -= oldest.encoded.len() + ENTRY_OVERHEAD_BYTES;
            }
            recent.head
        };
        self.bell.send_replace(head);
    }

    /// Empties the ring and sets its head, after the log moved in a way that was not published.
    pub(crate) fn reset(&self, head: Revision) {
        {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.entries.clear();
            recent.used_bytes = 0;
            recent.head = head;
        }
        self.bell.send_replace(head);
    }

    /// Returns what follows `cursor`: as many entries as fit into `limit_bytes`, but at least one if there is one.
    pub(crate) fn read_after(&self, cursor: Revision, limit_bytes: usize) -> RingRead {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        // A reader that came from the store may be ahead of what is published.
        let Some(missing) = recent.head.0.checked_sub(cursor.0).filter(|missing| *missing > 0) else {
            return RingRead::Current;
        };
        let start = usize::try_from(missing)
            .ok()
            .and_then(|missing| recent.entries.len().checked_sub(missing));
        let Some(start) = start else {
            return RingRead::Behind;
        };

        let mut entries = Vec::new();
        let mut total_bytes = 0;
        let mut last = None;
        for entry in recent.entries.range(start..) {
            total_bytes += entry.encoded.len();
            if total_bytes > limit_bytes && last.is_some() {
                break;
            }
            entries.push(entry.encoded.clone());
            last = Some(entry.hash);
        }
        match last {
            Some(progress_hash) => RingRead::Entries {
                progress: Revision(cursor.0 + entries.len() as u64),
                entries,
                progress_hash,
                head: recent.head,
            },
            None => RingRead::Current,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_OVERHEAD_BYTES, Ring, RingEntry, RingRead};
    use crate::chain::ChainHash;
    use crate::revision::Revision;

    fn entries(range: std::ops::RangeInclusive<u8>) -> Vec<RingEntry> {
        range
            .map(|byte| RingEntry {
                encoded: vec![byte; 10].into(),
                hash: ChainHash::genesis(&byte.to_string()),
            })
            .collect()
    }

    /// The first bytes of what a read after `cursor` brings; `None` where the store has to help.
    fn read(ring: &Ring, cursor: u64, limit_bytes: usize) -> Option<Vec<u8>> {
        match ring.read_after(Revision(cursor), limit_bytes) {
            RingRead::Entries {
                entries,
                progress,
                progress_hash,
                ..
            } => {
                let firsts: Vec<u8> = entries.iter().map(|entry| entry[0]).collect();
                assert_eq!(progress.0, cursor + firsts.len() as u64);
                assert_eq!(
                    progress_hash,
                    ChainHash::genesis(&firsts[firsts.len() - 1].to_string())
                );
                Some(firsts)
            }
            RingRead::Current => Some(Vec::new()),
            RingRead::Behind => None,
        }
    }

    #[test]
    fn a_reader_gets_exactly_what_follows_its_cursor() {
        let ring = Ring::new(Revision(4), 1000);
        assert_eq!(read(&ring, 4, 100), Some(vec![]));
        assert_eq!(read(&ring, 9, 100), Some(vec![]));
        assert_eq!(read(&ring, 3, 100), None);
        ring.publish(entries(5..=8));
        assert_eq!(ring.head(), Revision(8));
        assert_eq!(read(&ring, 3, 100), None);
        assert_eq!(read(&ring, 4, 100), Some(vec![5, 6, 7, 8]));
        assert_eq!(read(&ring, 4, 25), Some(vec![5, 6]));
        assert_eq!(read(&ring, 6, 1), Some(vec![7]));
        assert_eq!(read(&ring, 8, 100), Some(vec![]));
    }

    #[test]
    fn the_ring_is_bounded_by_bytes() {
        let ring = Ring::new(Revision(0), 2 * (10 + ENTRY_OVERHEAD_BYTES));
        ring.publish(entries(1..=5));
        assert_eq!(read(&ring, 2, 100), None);
        assert_eq!(read(&ring, 3, 100), Some(vec![4, 5]));
        ring.reset(Revision(9));
        assert_eq!(read(&ring, 8, 100), None);
        assert_eq!(read(&ring, 9, 100), Some(vec![]));
    }

    #[test]
    fn an_entry_larger_than_the_ring_is_left_to_the_store() {
        let ring = Ring::new(Revision(0), 5);
        ring.publish(entries(1..=1));
        assert_eq!(ring.head(), Revision(1));
        assert_eq!(read(&ring, 0, 100), None);
    }
}
