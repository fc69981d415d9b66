//! The blocks of entries: copies of what the log has.

use bytes::BytesMut;
use proto::{put_entry, split_entry};
use rusqlite::Connection;

use super::report::{PAGE_LIMIT_BYTES, Report};
use crate::revision::Revision;
use crate::store::sqlite::read::SqliteReader;
use crate::store::sqlite::rows;
use crate::store::{Bounds, Place, StoreError};

/// Checks every block up to the head at this moment.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    let mut position = Revision::ZERO;
    loop {
        report.check_goes_on()?;
        let next = reader.read(|connection, bounds| check_page(connection, bounds, position, report))?;
        match next {
            Some(next) => position = next,
            None => return Ok(()),
        }
    }
}

/// Checks some of the blocks that end after `position`; returns where the last of them ends, `None` after the last of all.
fn check_page(
    connection: &Connection,
    bounds: Bounds,
    position: Revision,
    report: &mut Report<'_>,
) -> Result<Option<Revision>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT first, last, entries FROM log_block WHERE last > ?1 ORDER BY last")?;
    let mut found = statement.query([position])?;
    let (mut position, mut used_bytes) = (position, 0);
    while let Some(row) = found.next()? {
        let (first, last) = (rows::revision(row, 0)?, rows::revision(row, 1)?);
        let block = rows::text(row, 2)?;
        let place = Place::Log { revision: first };
        if last > bounds.head {
            report.note(place, "there is a block of entries above the head");
        } else if first <= position {
            report.note(place, "two blocks have the same entries");
        } else if !is_copy(connection, bounds, first, last, block)? {
            let problem = format!("the block of entries up to {last} is not what the log has");
            report.note(place, problem);
        }
        position = last;
        used_bytes += block.len();
        if used_bytes > PAGE_LIMIT_BYTES {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Compares a block with the log, as far as the log goes back.
fn is_copy(
    connection: &Connection,
    bounds: Bounds,
    first: Revision,
    last: Revision,
    block: &[u8],
) -> Result<bool, StoreError> {
    let mut rest = block;
    let mut revision = first;
    while revision < bounds.oldest {
        if split_entry(&mut rest).is_none() {
            return Ok(false);
        }
        revision = revision.next();
    }
    let mut expected = BytesMut::new();
    let mut statement = connection
        .prepare_cached("SELECT entry FROM log WHERE revision >= ?1 AND revision <= ?2 ORDER BY revision")?;
    let mut found = statement.query((revision, last))?;
    while let Some(row) = found.next()? {
        put_entry(&mut expected, rows::text(row, 0)?);
    }
    Ok(rest == expected)
}
