//! Entries of the log in blocks, as answers of watches carry them: a reader far behind copies tens of kilobytes at a time, where rows
//! of the log, with the records in them, cost it a microsecond or more each.
//!
//! A block is a copy. Where there is none, for what an older version of the store wrote, the log itself is read.

use bytes::{Bytes, BytesMut};
use proto::{put_entry, split_entry};
use rusqlite::Connection;

use super::{log, rows};
use crate::revision::Revision;
use crate::store::{Bounds, EncodedPage, LogQuery, StoreError};

/// A block of this size is full; it holds the entries of one transaction.
const BLOCK_BYTES: usize = 32 * 1024;

/// The block that a transaction fills.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    /// Meaningless while there are no entries.
    first: Revision,
    last: Revision,
    entries: BytesMut,
}

impl OpenBlock {
    /// Adds the entry that follows.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        revision: Revision,
        entry: &[u8],
    ) -> Result<(), StoreError> {
        if self.entries.is_empty() {
            self.first = revision;
        }
        self.last = revision;
        put_entry(&mut self.entries, entry);
        if self.entries.len() >= BLOCK_BYTES {
            self.write(connection)?;
        }
        Ok(())
    }

    /// Writes what is left, at the latest before the commit.
    pub(super) fn write(&mut self, connection: &Connection) -> Result<(), StoreError> {
        if self.entries.is_empty() {
            return Ok(());
        }
        connection
            .prepare_cached("INSERT INTO log_block (last, first, entries) VALUES (?1, ?2, ?3)")?
            .execute((self.last, self.first, &self.entries[..]))?;
        self.entries.clear();
        Ok(())
    }
}

/// Drops the blocks that have nothing from `oldest` on.
pub(super) fn drop_before(connection: &Connection, oldest: Revision) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM log_block WHERE last < ?1")?
        .execute([oldest])?;
    Ok(())
}

/// Reads what follows `after`: whole blocks as long as they fit into `limit_bytes`, at least one entry if there is one.
pub(super) fn read(
    connection: &Connection,
    after: Revision,
    limit_bytes: usize,
    bounds: Bounds,
) -> Result<EncodedPage, StoreError> {
    log::check_cursor(after, bounds)?;
    let mut page = EncodedPage {
        entries: Vec::new(),
        progress: after,
        progress_hash: log::hash_at(connection, after, bounds)?,
        bounds,
    };
    let mut used_bytes = 0;
    {
        let mut statement = connection
            .prepare_cached("SELECT first, last, entries FROM log_block WHERE last > ?1 ORDER BY last")?;
        let mut found = statement.query([after])?;
        while let Some(row) = found.next()? {
            let (first, last) = (rows::revision(row, 0)?, rows::revision(row, 1)?);
            if first > page.progress.next() || last > bounds.head {
                break;
            }
            let entries = entries_after(rows::text(row, 2)?, first, last, page.progress)?;
            if used_bytes > 0 && used_bytes + entries.len() > limit_bytes {
                break;
            }
            used_bytes += entries.len();
            page.entries.push(Bytes::copy_from_slice(entries));
            page.progress = last;
        }
    }
    if page.entries.is_empty() && after < bounds.head {
        return read_rows(connection, after, limit_bytes, bounds);
    }
    if page.progress > after {
        page.progress_hash = log::hash_at(connection, page.progress, bounds)?;
    }
    Ok(page)
}

/// Returns the part of a block that follows `after`; damaged if it does not have the entries that it says.
fn entries_after(
    block: &[u8],
    first: Revision,
    last: Revision,
    after: Revision,
) -> Result<&[u8], StoreError> {
    let damaged = StoreError::Damaged {
        problem: "a block of entries that does not parse",
        revision: first,
    };
    let mut rest = block;
    let mut part = block;
    let mut revision = first;
    while !rest.is_empty() {
        if revision == after.next() {
            part = rest;
        }
        if split_entry(&mut rest).is_none() {
            return Err(damaged);
        }
        revision = revision.next();
    }
    if revision == last.next() {
        Ok(part)
    } else {
        Err(damaged)
    }
}

fn read_rows(
    connection: &Connection,
    after: Revision,
    limit_bytes: usize,
    bounds: Bounds,
) -> Result<EncodedPage, StoreError> {
    let query = LogQuery {
        limit_bytes,
        ..LogQuery::after(after)
    };
    let page = log::read_page(connection, &query, bounds)?;
    let mut entries = BytesMut::new();
    for entry in &page.entries {
        put_entry(&mut entries, &entry.encoded);
    }
    Ok(EncodedPage {
        entries: vec![entries.freeze()],
        progress: page.progress,
        progress_hash: page.progress_hash,
        bounds: page.bounds,
    })
}
