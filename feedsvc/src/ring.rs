//! The newest entries of the log, encoded once and shared by every watch.
//!
//! Readers pull after their own cursor; the bell only says that there may be more. The ring is bounded by bytes: what it
//! no longer has, a reader takes from the store.
//!
//! Entries stand in blocks, one after the other in the form in which an answer carries them, so that a reader far behind copies
//! tens of kilobytes at a time instead of entry after entry.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};
use proto::{entry_size, put_entry};
use tokio::sync::watch;

use crate::bells::Bells;
use crate::catalog::TableId;
use crate::chain::ChainHash;
use crate::revision::Revision;

/// How much a block has at most, unless a single entry is larger. A reader that holds a part of one holds it all.
const BLOCK_BYTES: usize = 32 * 1024;
/// The ring drops whole blocks, so it has at least so many of them.
const BLOCKS_MIN: usize = 16;
/// What a block costs besides its entries: itself, twice, since the queue doubles when it is full, and what is allocated for it.
const BLOCK_OVERHEAD_BYTES: usize = 2 * size_of::<Block>() + 128;

/// How many entries a reader of some tables looks at in one go, which is well below a millisecond.
const SCAN_ENTRIES: usize = 4_096;

/// One entry as it is published.
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

/// Invariant: `blocks` follow each other without a hole and end at `head`; the last `loose` of them become one as soon as they have
/// enough bytes for a block.
#[derive(Debug)]
struct Recent {
    blocks: VecDeque<Block>,
    loose: usize,
    loose_bytes: usize,
    head: Revision,
    used_bytes: usize,
}

/// Entries that follow each other, at least one.
#[derive(Debug)]
struct Block {
    first: Revision,
    /// As [`put_entry`] writes them.
    wire: Bytes,
    marks: Box<[Mark]>,
}

/// Where an entry ends, and what else is known of it.
#[derive(Clone, Debug)]
struct Mark {
    end: usize,
    hash: ChainHash,
    table: Option<TableId>,
}

/// What a reader finds after its cursor.
#[derive(Debug)]
pub(crate) enum RingRead {
    /// Entries right after the cursor, at least one; of a reader of some tables, those of them up to `progress`, maybe none.
    Entries {
        /// As an answer carries them, any number in a slice.
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
                blocks: VecDeque::new(),
                loose: 0,
                loose_bytes: 0,
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
    pub(crate) fn publish(&self, entries: &[RingEntry]) {
        let rung = self.bells.find(entries.iter().map(|entry| entry.table));
        let block_bytes = BLOCK_BYTES.min(self.limit_bytes / BLOCKS_MIN);
        let head = {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            let mut entries = entries;
            while !entries.is_empty() {
                let (block, rest) = Block::of(recent.head.next(), entries, block_bytes);
                recent.push(block, block_bytes);
                entries = rest;
            }
            recent.drop_beyond(self.limit_bytes);
            recent.head
        };
        self.bell.send_replace(head);
        rung.ring();
    }

    /// Empties the ring and sets its head, after the log moved in a way that was not published.
    pub(crate) fn reset(&self, head: Revision) {
        {
            let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
            recent.blocks.clear();
            recent.loose = 0;
            recent.loose_bytes = 0;
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
        if cursor >= recent.head {
            return RingRead::Current;
        }
        let Some((block, mut index)) = recent.find(cursor.next()) else {
            return RingRead::Behind;
        };

        let mut entries = Vec::new();
        let mut left_bytes = limit_bytes;
        let mut last = None;
        for block in recent.blocks.range(block..) {
            let start = block.start(index);
            let fitting = block.marks.get(index..).unwrap_or_default();
            let mut count = fitting.partition_point(|mark| mark.end - start <= left_bytes);
            if count == 0 && last.is_none() {
                count = 1;
            }
            let Some(mark) = count.checked_sub(1).and_then(|count| fitting.get(count)) else {
                break;
            };
            entries.push(block.wire.slice(start..mark.end));
            last = Some((block.revision(index + count - 1), mark.hash));
            left_bytes = left_bytes.saturating_sub(mark.end - start);
            if count < fitting.len() {
                break;
            }
            index = 0;
        }
        match last {
            Some((progress, progress_hash)) => RingRead::Entries {
                entries,
                progress,
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
        let Some((block, mut index)) = recent.find(cursor.next()) else {
            return RingRead::Behind;
        };

        let mut entries = Vec::new();
        let mut total_bytes = 0;
        let mut looked_at = 0;
        let mut last = None;
        'blocks: for block in recent.blocks.range(block..) {
            // Neighbours that are wanted are one slice.
            let mut wanted = Wanted::new(block);
            for (mark, index) in block.marks.get(index..).unwrap_or_default().iter().zip(index..) {
                if looked_at == SCAN_ENTRIES || block.revision(index) > until {
                    wanted.finish(&mut entries);
                    break 'blocks;
                }
                looked_at += 1;
                if is_wanted(mark.table) {
                    let start = block.start(index);
                    let is_first = total_bytes == 0;
                    total_bytes += mark.end - start;
                    if total_bytes > limit_bytes && !is_first {
                        wanted.finish(&mut entries);
                        break 'blocks;
                    }
                    wanted.add(start..mark.end, &mut entries);
                }
                last = Some((block.revision(index), mark.hash));
            }
            wanted.finish(&mut entries);
            index = 0;
        }
        match last {
            Some((progress, progress_hash)) => RingRead::Entries {
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
        self.blocks
            .front()
            .map_or_else(|| self.head.next(), |block| block.first)
    }

    /// Finds the entry of a revision up to the head: its block, and its place there.
    fn find(&self, revision: Revision) -> Option<(usize, usize)> {
        let block = self
            .blocks
            .partition_point(|block| block.first <= revision)
            .checked_sub(1)?;
        let index = revision.0 - self.blocks.get(block)?.first.0;
        Some((block, usize::try_from(index).ok()?))
    }

    fn push(&mut self, block: Block, block_bytes: usize) {
        self.head = block.revision(block.marks.len() - 1);
        self.used_bytes += block.used_bytes();
        self.loose += 1;
        self.loose_bytes += block.wire.len();
        self.blocks.push_back(block);
        if self.loose_bytes < block_bytes {
            return;
        }
        self.loose_bytes = 0;
        let count = std::mem::take(&mut self.loose);
        if count == 1 {
            return;
        }
        // Each entry is copied once more, whatever the sizes in which it came.
        let loose = self.blocks.split_off(self.blocks.len() - count);
        self.used_bytes -= loose.iter().map(Block::used_bytes).sum::<usize>();
        if let Some(joined) = Block::joined(&loose) {
            self.used_bytes += joined.used_bytes();
            self.blocks.push_back(joined);
        }
    }

    fn drop_beyond(&mut self, limit_bytes: usize) {
        while self.used_bytes > limit_bytes {
            let Some(oldest) = self.blocks.pop_front() else {
                break;
            };
            self.used_bytes -= oldest.used_bytes();
            if self.loose > self.blocks.len() {
                self.loose = self.blocks.len();
                self.loose_bytes -= oldest.wire.len();
            }
        }
    }
}

impl Block {
    /// Makes a block of as many entries as it takes, at least one; returns the others too.
    fn of(first: Revision, entries: &[RingEntry], limit_bytes: usize) -> (Block, &[RingEntry]) {
        let mut size_bytes = 0;
        let mut marks = Vec::with_capacity(entries.len());
        for entry in entries {
            let end = size_bytes + entry_size(entry.encoded.len());
            if end > limit_bytes && size_bytes > 0 {
                break;
            }
            size_bytes = end;
            marks.push(Mark {
                end,
                hash: entry.hash,
                table: entry.table,
            });
        }
        let (taken, rest) = entries.split_at(marks.len());
        let mut wire = BytesMut::with_capacity(size_bytes);
        for entry in taken {
            put_entry(&mut wire, &entry.encoded);
        }
        let block = Block {
            first,
            wire: wire.freeze(),
            marks: marks.into(),
        };
        (block, rest)
    }

    /// Joins neighbours.
    fn joined(blocks: &VecDeque<Block>) -> Option<Block> {
        let first = blocks.front()?.first;
        let mut wire = BytesMut::with_capacity(blocks.iter().map(|block| block.wire.len()).sum());
        let mut marks = Vec::with_capacity(blocks.iter().map(|block| block.marks.len()).sum());
        for block in blocks {
            let offset = wire.len();
            marks.extend(block.marks.iter().map(|mark| Mark {
                end: offset + mark.end,
                ..mark.clone()
            }));
            wire.extend_from_slice(&block.wire);
        }
        Some(Block {
            first,
            wire: wire.freeze(),
            marks: marks.into(),
        })
    }

    fn used_bytes(&self) -> usize {
        self.wire.len() + self.marks.len() * size_of::<Mark>() + BLOCK_OVERHEAD_BYTES
    }

    /// Returns where the entry at a place begins.
    fn start(&self, index: usize) -> usize {
        let before = index.checked_sub(1).and_then(|before| self.marks.get(before));
        before.map_or(0, |mark| mark.end)
    }

    fn revision(&self, index: usize) -> Revision {
        Revision(self.first.0 + index as u64)
    }
}

/// Collects the parts of a block that are wanted.
struct Wanted<'a> {
    block: &'a Block,
    part: Range<usize>,
}

impl<'a> Wanted<'a> {
    fn new(block: &'a Block) -> Wanted<'a> {
        Wanted { block, part: 0..0 }
    }

    fn add(&mut self, part: Range<usize>, slices: &mut Vec<Bytes>) {
        if part.start == self.part.end {
            self.part.end = part.end;
        } else {
            self.finish(slices);
            self.part = part;
        }
    }

    fn finish(&mut self, slices: &mut Vec<Bytes>) {
        if !self.part.is_empty() {
            slices.push(self.block.wire.slice(self.part.clone()));
        }
        self.part = self.part.end..self.part.end;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use bytes::{Buf as _, Bytes};
    use proptest::prelude::*;

    use super::{BLOCK_OVERHEAD_BYTES, Mark, Ring, RingEntry, RingRead};
    use crate::catalog::TableId;
    use crate::chain::ChainHash;
    use crate::revision::Revision;

    /// The size of an entry below, as an answer carries it.
    const ENTRY_BYTES: usize = 12;

    /// Entries of ten bytes, each its revision.
    fn entries(range: RangeInclusive<u8>) -> Vec<RingEntry> {
        range.map(|byte| entry(byte, 10)).collect()
    }

    fn entry(byte: u8, length: usize) -> RingEntry {
        RingEntry {
            encoded: vec![byte; length].into(),
            hash: hash(byte.into()),
            table: (byte.is_multiple_of(2)).then_some(TableId(i64::from(byte % 4))),
        }
    }

    fn hash(revision: u64) -> ChainHash {
        ChainHash::genesis(&revision.to_string())
    }

    /// The first byte of every entry in slices of an answer.
    fn firsts(slices: &[Bytes]) -> Vec<u8> {
        let mut firsts = Vec::new();
        for slice in slices {
            let mut slice = slice.clone();
            assert!(!slice.is_empty());
            while slice.has_remaining() {
                assert_eq!(slice.get_u8(), 0x0a);
                let length = prost::decode_length_delimiter(&mut slice).unwrap();
                firsts.push(slice.split_to(length)[0]);
            }
        }
        firsts
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
                let firsts = firsts(&entries);
                assert_eq!(progress.0, cursor + firsts.len() as u64);
                assert_eq!(progress_hash, hash(progress.0));
                Some(firsts)
            }
            RingRead::Current => Some(Vec::new()),
            RingRead::Behind => None,
        }
    }

    /// As [`read`], of a reader who wants some tables, and how far it came.
    fn read_wanted(
        ring: &Ring,
        cursor: u64,
        until: u64,
        limit_bytes: usize,
        wanted: &[Option<TableId>],
    ) -> Option<(Vec<u8>, u64)> {
        let is_wanted = |table| wanted.contains(&table);
        match ring.read_wanted(Revision(cursor), Revision(until), limit_bytes, is_wanted) {
            RingRead::Entries {
                entries,
                progress,
                progress_hash,
                ..
            } => {
                assert_eq!(progress_hash, hash(progress.0));
                Some((firsts(&entries), progress.0))
            }
            RingRead::Current => Some((Vec::new(), cursor)),
            RingRead::Behind => None,
        }
    }

    #[test]
    fn a_reader_gets_exactly_what_follows_its_cursor() {
        let ring = Ring::new(Revision(4), 10_000);
        assert_eq!(read(&ring, 4, 100), Some(vec![]));
        assert_eq!(read(&ring, 9, 100), Some(vec![]));
        assert_eq!(read(&ring, 3, 100), None);
        ring.publish(&entries(5..=8));
        assert_eq!(ring.head(), Revision(8));
        assert_eq!(read(&ring, 3, 100), None);
        assert_eq!(read(&ring, 4, 100), Some(vec![5, 6, 7, 8]));
        assert_eq!(read(&ring, 4, 2 * ENTRY_BYTES), Some(vec![5, 6]));
        assert_eq!(read(&ring, 6, 1), Some(vec![7]));
        assert_eq!(read(&ring, 8, 100), Some(vec![]));
        ring.reset(Revision(9));
        assert_eq!(read(&ring, 8, 100), None);
        assert_eq!(read(&ring, 9, 100), Some(vec![]));
    }

    #[test]
    fn a_reader_of_some_tables_gets_theirs_and_moves_on_over_the_others() {
        let ring = Ring::new(Revision(0), 10_000);
        ring.publish(&entries(1..=7));
        // Odd ones are session commands, 2 and 6 are of table 2, 4 is of table 0.
        let read =
            |cursor, until, limit_bytes, wanted: &[_]| read_wanted(&ring, cursor, until, limit_bytes, wanted);
        let two = [Some(TableId(2))];
        assert_eq!(read(0, 9, 100, &two), Some((vec![2, 6], 7)));
        assert_eq!(read(0, 5, 100, &two), Some((vec![2], 5)));
        assert_eq!(read(0, 9, ENTRY_BYTES + 3, &two), Some((vec![2], 5)));
        assert_eq!(read(6, 9, 100, &two), Some((vec![], 7)));
        assert_eq!(read(7, 9, 100, &two), Some((vec![], 7)));
        assert_eq!(
            read(2, 9, 100, &[None, Some(TableId(0))]),
            Some((vec![3, 4, 5, 7], 7))
        );
        assert_eq!(read(0, 9, 100, &[]), Some((vec![], 7)));
        let none = Ring::new(Revision(0), 5);
        none.publish(&entries(1..=5));
        assert_eq!(read_wanted(&none, 2, 5, 100, &two), None);
    }

    #[test]
    fn an_entry_larger_than_the_ring_is_left_to_the_store() {
        let ring = Ring::new(Revision(0), 5);
        ring.publish(&entries(1..=1));
        assert_eq!(ring.head(), Revision(1));
        assert_eq!(read(&ring, 0, 100), None);
        assert_eq!(ring.usage(), (0, Revision(2)));
    }

    #[test]
    fn the_ring_keeps_what_fits() {
        // Ten entries that come one by one, and become blocks on the way.
        let limit_bytes = 10 * (ENTRY_BYTES + size_of::<Mark>() + BLOCK_OVERHEAD_BYTES);
        let ring = Ring::new(Revision(0), limit_bytes);
        for byte in 1..=10 {
            ring.publish(&entries(byte..=byte));
        }
        assert_eq!(
            read(&ring, 0, usize::MAX).map(|all| all.len()),
            Some(10),
            "they fit"
        );
        for byte in 11..=200 {
            ring.publish(&entries(byte..=byte));
        }
        let (used_bytes, _) = ring.usage();
        assert!(
            used_bytes <= limit_bytes && used_bytes > limit_bytes / 2,
            "{used_bytes}"
        );
    }

    proptest! {
        /// Whatever comes in what sizes, a reader gets what a list of all entries says, and the memory stays within its bytes.
        #[test]
        fn the_ring_reads_like_a_list(
            groups in prop::collection::vec(prop::collection::vec(1_usize..400, 1..9), 1..25),
            limit_bytes in 100_usize..20_000,
            answer_bytes in 1_usize..2_000,
        ) {
            let ring = Ring::new(Revision(0), limit_bytes);
            let mut all: Vec<(u8, usize)> = Vec::new();
            for group in groups {
                let mut published = Vec::new();
                for length in group {
                    let byte = u8::try_from(all.len() + 1).unwrap();
                    published.push(entry(byte, length));
                    all.push((byte, proto::entry_size(length)));
                }
                ring.publish(&published);
                let (used_bytes, oldest) = ring.usage();
                prop_assert!(used_bytes <= limit_bytes);
                for cursor in 0..=all.len() {
                    let rest = &all[cursor..];
                    let is_kept = cursor + 1 >= usize::try_from(oldest.0).unwrap();
                    let fitting = |wanted: &dyn Fn(u8) -> bool| {
                        let mut sum = 0;
                        let (mut bytes, mut progress) = (Vec::new(), cursor);
                        for (byte, size) in rest {
                            if wanted(*byte) {
                                sum += size;
                                if sum > answer_bytes && !bytes.is_empty() {
                                    break;
                                }
                                bytes.push(*byte);
                            }
                            progress += 1;
                        }
                        (bytes, progress as u64)
                    };
                    let expected = is_kept.then(|| fitting(&|_| true).0);
                    prop_assert_eq!(read(&ring, cursor as u64, answer_bytes), expected);
                    let expected = (is_kept || rest.is_empty()).then(|| fitting(&|byte| byte % 4 == 2));
                    let wanted = [Some(TableId(2))];
                    prop_assert_eq!(read_wanted(&ring, cursor as u64, u64::MAX, answer_bytes, &wanted), expected);
                }
            }
        }
    }
}
