//! The newest entries of the log, encoded once and shared by every watch.
//!
//! Readers pull after their own cursor; the bell only says that there may be more. The ring is bounded by bytes: what it
//! no longer has, a reader takes from the store.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::watch;

use crate::bells::Bells;
use crate::catalog::TableId;
use crate::chain::ChainHash;
use crate::revision::Revision;

/// What one entry costs besides its bytes: its slot, twice, since the queue doubles when it is full; what `Bytes` shares them by (48 bytes
/// with the allocator's header), and the header and the rounding of the bytes themselves.
const ENTRY_OVERHEAD_BYTES: usize = 2 * size_of::<RingEntry>() + 48 + 16;

/// How many entries a reader of some tables looks at in one go, which is well below a millisecond.
const SCAN_ENTRIES: usize = 4_096;

/// One entry as the ring keeps it.
#[derive(Clone, Debug)]
pub(crate) struct RingEntry {
    pub(crate) encoded: Bytes,
    /// The log's hash after this entry.
    pub(crate) hash: ChainHash,
    /// The table whose record changed; `None`: a session command.
    pub(crate) table: Option<TableId>,
}

/// The bounded, shared ring.
#[derive(Debug)]
pub(crate) struct Ring {
    limit_bytes: usize,
    /// Held for short sections only and never across an await: a read copies references, a write moves some in and out.
    recent: RwLock<Recent>,
    bell: watch::Sender<Revision>,
    /// Wakes those who read only some tables.
    bells: Arc<Bells>,
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
    /// Entries right after the cursor, at least one; of a reader of some tables, those of them up to `progress`, maybe none.
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
            bells: Arc::default(),
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

    /// Returns the bells of those who read only some tables.
    pub(crate) fn bells(&self) -> &Arc<Bells> {
        &self.bells
    }

    /// Returns how much memory the entries take, and the oldest of them; the one after the head if there is none.
    pub(crate) fn usage(&self) -> (usize, Revision) {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        (recent.used_bytes, recent.oldest())
    }

    /// Appends the entries that follow the head, drops the oldest beyond the limit, and rings the bell.
    pub(crate) fn publish(&self, entries: Vec<RingEntry>) {
        let rung = self.bells.find(entries.iter().map(|entry| entry.table));
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
        rung.ring();
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
        self.bells.all().ring();
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

    /// Returns what follows `cursor` up to `until` and is wanted; looks at a bounded number of entries, so there may be none
    /// although the progress has moved on.
    pub(crate) fn read_wanted(
        &self,
        cursor: Revision,
        until: Revision,
        limit_bytes: usize,
        is_wanted: impl Fn(Option<TableId>) -> bool,
    ) -> RingRead {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        let until = until.min(recent.head);
        if cursor >= until {
            return RingRead::Current;
        }
        let start = cursor.next().0.checked_sub(recent.oldest().0);
        let Some(start) = start.and_then(|start| usize::try_from(start).ok()) else {
            return RingRead::Behind;
        };

        let mut entries = Vec::new();
        let mut total_bytes = 0;
        let mut progress = cursor;
        let mut last = None;
        for entry in recent.entries.range(start..).take(SCAN_ENTRIES) {
            if progress == until {
                break;
            }
            if is_wanted(entry.table) {
                total_bytes += entry.encoded.len();
                if total_bytes > limit_bytes && !entries.is_empty() {
                    break;
                }
                entries.push(entry.encoded.clone());
            }
            progress = progress.next();
            last = Some(entry.hash);
        }
        match last {
            Some(progress_hash) => RingRead::Entries {
                entries,
                progress,
                progress_hash,
                head: recent.head,
            },
            None => RingRead::Current,
        }
    }
}

impl Recent {
    fn oldest(&self) -> Revision {
        Revision(self.head.0 + 1 - self.entries.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_OVERHEAD_BYTES, Ring, RingEntry, RingRead};
    use crate::catalog::TableId;
    use crate::chain::ChainHash;
    use crate::revision::Revision;

    fn entries(range: std::ops::RangeInclusive<u8>) -> Vec<RingEntry> {
        range
            .map(|byte| RingEntry {
                encoded: vec![byte; 10].into(),
                hash: ChainHash::genesis(&byte.to_string()),
                table: (byte % 2 == 0).then_some(TableId(i64::from(byte % 4))),
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
    fn a_reader_of_some_tables_gets_theirs_and_moves_on_over_the_others() {
        let ring = Ring::new(Revision(0), 10_000);
        ring.publish(entries(1..=7));
        // Odd ones are session commands, 2 and 6 are of table 2, 4 is of table 0.
        let read = |cursor, until, limit_bytes, wanted: &[Option<TableId>]| match ring.read_wanted(
            Revision(cursor),
            Revision(until),
            limit_bytes,
            |table| wanted.contains(&table),
        ) {
            RingRead::Entries {
                entries,
                progress,
                progress_hash,
                ..
            } => {
                assert_eq!(progress_hash, ChainHash::genesis(&progress.0.to_string()));
                Some((entries.iter().map(|entry| entry[0]).collect(), progress.0))
            }
            RingRead::Current => Some((Vec::new(), cursor)),
            RingRead::Behind => None,
        };
        let two = [Some(TableId(2))];
        assert_eq!(read(0, 9, 100, &two), Some((vec![2, 6], 7)));
        assert_eq!(read(0, 5, 100, &two), Some((vec![2], 5)));
        assert_eq!(read(0, 9, 15, &two), Some((vec![2], 5)));
        assert_eq!(read(6, 9, 100, &two), Some((vec![], 7)));
        assert_eq!(read(7, 9, 100, &two), Some((vec![], 7)));
        assert_eq!(
            read(2, 9, 100, &[None, Some(TableId(0))]),
            Some((vec![3, 4, 5, 7], 7))
        );
        assert_eq!(read(0, 9, 100, &[]), Some((vec![], 7)));
        let small = Ring::new(Revision(0), 2 * (10 + ENTRY_OVERHEAD_BYTES));
        small.publish(entries(1..=5));
        let behind = small.read_wanted(Revision(2), Revision(5), 100, |_| true);
        assert!(matches!(behind, RingRead::Behind));
        assert_eq!(small.usage(), (2 * (10 + ENTRY_OVERHEAD_BYTES), Revision(4)));
    }

    #[test]
    fn an_entry_larger_than_the_ring_is_left_to_the_store() {
        let ring = Ring::new(Revision(0), 5);
        ring.publish(entries(1..=1));
        assert_eq!(ring.head(), Revision(1));
        assert_eq!(read(&ring, 0, 100), None);
    }
}
