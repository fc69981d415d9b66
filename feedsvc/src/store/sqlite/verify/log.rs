//! The audit log: dense from the oldest revision to the head, its entries chained, its columns what the entries say.

use prost::Message;
use proto::feed::v1::Entry;
use proto::feed::v1::entry::Body;
use rusqlite::{Connection, Row};

use super::report::{PAGE_LIMIT_BYTES, PAGE_ROWS, Report};
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::sqlite::read::SqliteReader;
use crate::store::sqlite::rows::sql_limit;
use crate::store::sqlite::{log, rows};
use crate::store::{Bounds, Place, StoreError};

/// How far the check has come.
struct Walk {
    /// Everything up to here was checked.
    position: Revision,
    /// The log's hash there.
    hash: ChainHash,
    commit_time_ms: i64,
    /// Where the check ends: the head when it began.
    end: Revision,
}

/// Checks the log up to its head at this moment.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    let mut walk = reader.read(|connection, bounds| begin(connection, bounds, report))?;
    report.verification.head = walk.end;
    while walk.position < walk.end {
        report.check_goes_on()?;
        reader.read(|connection, bounds| check_page(connection, bounds, &mut walk, report))?;
    }
    Ok(())
}

/// Checks what the feed says of its log.
fn begin(connection: &Connection, bounds: Bounds, report: &mut Report<'_>) -> Result<Walk, StoreError> {
    let (base_hash, head_hash, store_id): (_, _, String) =
        connection.query_row("SELECT base_hash, head_hash, store_id FROM feed", [], |row| {
            Ok((rows::bytes(row, 0)?, rows::bytes(row, 1)?, row.get(2)?))
        })?;
    let base = Revision(bounds.oldest.0.saturating_sub(1));
    let hash = rows::hash(&base_hash, base)?;
    if bounds.oldest == Revision(1) && hash != ChainHash::genesis(&store_id) {
        let place = Place::Log { revision: base };
        report.note(place, "the chain does not begin with the store's identity");
    }
    let (first, last): (Option<i64>, Option<i64>) =
        connection.query_row("SELECT min(revision), max(revision) FROM log", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if last.is_some_and(|last| last.cast_unsigned() > bounds.head.0) {
        let place = Place::Log {
            revision: bounds.head.next(),
        };
        report.note(place, "there are entries above the head");
    }
    if first.is_some_and(|first| first.cast_unsigned() < bounds.oldest.0) {
        report.note(
            Place::Log { revision: base },
            "there are entries below the oldest",
        );
    }
    match log::hash_at(connection, bounds.head, bounds) {
        Ok(hash) if hash.as_bytes().as_slice() == head_hash.as_ref() => {}
        Ok(_) | Err(StoreError::Damaged { .. }) => {
            let place = Place::Log {
                revision: bounds.head,
            };
            report.note(place, "the head's hash is not that of the newest entry");
        }
        Err(error) => return Err(error),
    }
    Ok(Walk {
        position: base,
        hash,
        commit_time_ms: i64::MIN,
        end: bounds.head,
    })
}

fn check_page(
    connection: &Connection,
    bounds: Bounds,
    walk: &mut Walk,
    report: &mut Report<'_>,
) -> Result<(), StoreError> {
    if walk.position.next() < bounds.oldest {
        // Trimmed meanwhile, further than the check has come.
        walk.position = Revision(bounds.oldest.0 - 1);
        walk.hash = log::hash_at(connection, walk.position, bounds)?;
    }
    let mut statement = connection.prepare_cached(
        "SELECT revision, hash, entry, before, after, commit_time_ms, principal, table_id, key FROM log
         WHERE revision > ?1 AND revision <= ?2 ORDER BY revision LIMIT ?3",
    )?;
    let mut found = statement.query((walk.position, walk.end, sql_limit(PAGE_ROWS)))?;
    let (mut row_count, mut used_bytes) = (0, 0);
    while let Some(row) = found.next()? {
        row_count += 1;
        let revision = rows::revision(row, 0)?;
        let expected = walk.position.next();
        let is_next = revision == expected;
        if !is_next {
            let place = Place::Log { revision: expected };
            report.note(place, format!("entries up to {} are missing", revision.0 - 1));
        }
        used_bytes += check_entry(row, revision, is_next, walk, report)?;
        report.verification.entries += 1;
        if used_bytes > PAGE_LIMIT_BYTES {
            return Ok(());
        }
    }
    if row_count < PAGE_ROWS && walk.position < walk.end {
        let place = Place::Log {
            revision: walk.position.next(),
        };
        report.note(place, format!("entries up to {} are missing", walk.end));
        walk.position = walk.end;
    }
    Ok(())
}

/// Checks one entry and moves on behind it; returns its size.
fn check_entry(
    row: &Row<'_>,
    revision: Revision,
    is_next: bool,
    walk: &mut Walk,
    report: &mut Report<'_>,
) -> Result<usize, StoreError> {
    let place = Place::Log { revision };
    let encoded = rows::text(row, 2)?;
    let (before, after) = (rows::optional_bytes(row, 3)?, rows::optional_bytes(row, 4)?);
    let stored = ChainHash::from_bytes(rows::text(row, 1)?);
    let computed = walk
        .hash
        .followed_by(encoded, before.as_deref(), after.as_deref());
    // Behind a hole there is nothing to compare with; the chain goes on from what is stored, so that one fault is one finding.
    if is_next && stored != Some(computed) {
        report.note(
            place.clone(),
            "the hash does not follow from the entry and the one before",
        );
    }
    let commit_time_ms: i64 = row.get(5)?;
    if commit_time_ms < walk.commit_time_ms {
        report.note(
            place.clone(),
            "the commit time is before that of the entry before",
        );
    }
    if let Some(problem) = find_contradiction(row, encoded, revision, commit_time_ms)? {
        report.note(place, problem);
    }
    walk.position = revision;
    walk.hash = stored.unwrap_or(computed);
    walk.commit_time_ms = walk.commit_time_ms.max(commit_time_ms);
    let values = [before, after].map(|value| value.map_or(0, |value| value.len()));
    Ok(encoded.len() + values[0] + values[1])
}

/// Compares an entry with the columns by which it is found.
fn find_contradiction(
    row: &Row<'_>,
    encoded: &[u8],
    revision: Revision,
    commit_time_ms: i64,
) -> Result<Option<&'static str>, StoreError> {
    let Ok(entry) = Entry::decode(encoded) else {
        return Ok(Some("the entry does not parse"));
    };
    if entry.revision != revision.0 {
        return Ok(Some("the entry has another revision"));
    }
    if entry.commit_time_ms != commit_time_ms {
        return Ok(Some("the entry has another commit time"));
    }
    if entry.principal.as_bytes() != rows::text(row, 6)? {
        return Ok(Some("the entry has another principal"));
    }
    let has_table = row.get::<_, Option<i64>>(7)?.is_some();
    let (is_change, key) = match &entry.body {
        Some(Body::Change(change)) => (true, change.key.as_str()),
        Some(Body::Session(command)) => (false, command.session_id.as_str()),
        None => return Ok(Some("the entry says nothing")),
    };
    if is_change != has_table || key.as_bytes() != rows::text(row, 8)? {
        return Ok(Some("the entry is about something else"));
    }
    Ok(None)
}
