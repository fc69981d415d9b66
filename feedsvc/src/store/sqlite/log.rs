//! Reads of the log: pages of it, the newest revisions of records, its hash, and which revision belongs to a time.
//!
//! Every function works in the one read transaction that its caller began.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use rusqlite::{Connection, OptionalExtension, Row};

use super::rows;
use super::rows::sql_limit;
use crate::catalog::TableId;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::{Bounds, LogEntry, LogPage, LogQuery, Snapshot, StoreError, Target};

/// How many revisions of one target are read ahead at most, in a page of targets.
const AHEAD_MAX: usize = 1_000;

/// A cursor is good if everything after it is in the log.
pub(super) fn check_cursor(after: Revision, bounds: Bounds) -> Result<(), StoreError> {
    if after > bounds.head {
        return Err(StoreError::BeyondHead { head: bounds.head });
    }
    if after.next() < bounds.oldest {
        return Err(StoreError::Compacted {
            oldest: bounds.oldest,
        });
    }
    Ok(())
}

/// Returns the hash at a revision that the log knows.
pub(super) fn hash_at(
    connection: &Connection,
    revision: Revision,
    bounds: Bounds,
) -> Result<ChainHash, StoreError> {
    let sql = if revision.next() == bounds.oldest {
        "SELECT base_hash FROM feed WHERE ?1 = oldest - 1"
    } else {
        "SELECT hash FROM log WHERE revision = ?1"
    };
    let mut statement = connection.prepare_cached(sql)?;
    let hash = statement
        .query_row([revision], |row| rows::bytes(row, 0))
        .optional()?;
    rows::hash(&hash.ok_or(missing(revision))?, revision)
}

/// Returns the newest revision with a commit time before `time_ms`, or the one before the oldest: commit times never fall,
/// so they are searched by halves.
pub(super) fn newest_before(
    connection: &Connection,
    time_ms: i64,
    bounds: Bounds,
) -> Result<Revision, StoreError> {
    let mut statement = connection.prepare_cached("SELECT commit_time_ms FROM log WHERE revision = ?1")?;
    // What is below `low` is before the time, what is at or above `high` is not.
    let (mut low, mut high) = (bounds.oldest.0, bounds.head.0 + 1);
    while low < high {
        let middle = Revision(low + (high - low) / 2);
        let found: Option<i64> = statement.query_row([middle], |row| row.get(0)).optional()?;
        if found.ok_or(missing(middle))? < time_ms {
            low = middle.0 + 1;
        } else {
            high = middle.0;
        }
    }
    Ok(Revision(low - 1))
}

/// Returns for each target its newest revision in the range.
pub(super) fn find_latest(
    connection: &Connection,
    targets: &[Option<Target>],
    after: Revision,
    until: Option<Revision>,
    bounds: Bounds,
) -> Result<Snapshot<Vec<Revision>>, StoreError> {
    check_cursor(after, bounds)?;
    let until = until.unwrap_or(bounds.head).min(bounds.head);
    let latest = targets.iter().map(|target| match target {
        Some(target) => find_latest_of(connection, target, after, until),
        None => Ok(Revision::ZERO),
    });
    Ok(Snapshot {
        value: latest.collect::<Result<_, _>>()?,
        revision: until,
    })
}

fn find_latest_of(
    connection: &Connection,
    target: &Target,
    after: Revision,
    until: Revision,
) -> Result<Revision, StoreError> {
    let sql = match target.key {
        Some(_) => {
            "SELECT revision FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key = ?2 AND revision > ?3 AND revision <= ?4
             ORDER BY revision DESC LIMIT 1"
        }
        None => {
            "SELECT revision FROM log INDEXED BY log_by_table WHERE table_id = ?1 AND ?2 IS NULL AND revision > ?3 AND revision <= ?4
             ORDER BY revision DESC LIMIT 1"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let latest = statement
        .query_row((target.table, &target.key, after, until), |row| {
            rows::revision(row, 0)
        })
        .optional()?;
    Ok(latest.unwrap_or_default())
}

/// Reads a page.
pub(super) fn read_page(
    connection: &Connection,
    query: &LogQuery,
    bounds: Bounds,
) -> Result<LogPage, StoreError> {
    check_cursor(query.after, bounds)?;
    let until = query
        .until
        .unwrap_or(bounds.head)
        .min(bounds.head)
        .max(query.after);
    // Where matches can be: what is outside of the times is passed over without being looked at.
    let mut first = query.after;
    if let Some(from_ms) = query.from_time_ms {
        first = first.max(newest_before(connection, from_ms, bounds)?);
    }
    let mut last = until;
    if let Some(until_ms) = query.until_time_ms {
        last = last.min(newest_before(connection, until_ms, bounds)?);
    }
    let mut page = Page::new(query);
    let end = if first >= last {
        None
    } else {
        match &query.targets {
            Some(targets) if !query.with_sessions => {
                read_targets(connection, query, targets, first, last, &mut page)?
            }
            _ => scan(connection, query, first, last, &mut page)?,
        }
    };
    let progress = end.unwrap_or(until);
    Ok(LogPage {
        entries: page.entries,
        progress,
        progress_hash: hash_at(connection, progress, bounds)?,
        bounds,
    })
}

/// Collects entries until the page is full.
struct Page<'a> {
    query: &'a LogQuery,
    entries: Vec<LogEntry>,
    used_bytes: usize,
    scanned: usize,
}

/// What became of an entry that was offered to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Done,
    /// The page ended before it.
    Refused,
}

impl<'a> Page<'a> {
    fn new(query: &'a LogQuery) -> Page<'a> {
        Page {
            query,
            entries: Vec::new(),
            used_bytes: 0,
            scanned: 0,
        }
    }

    /// Takes the entry in a row of [`columns`], or passes over it if it is not asked for.
    fn offer(&mut self, row: &Row<'_>, revision: Revision, is_wanted: bool) -> Result<Offer, StoreError> {
        if self.scanned >= self.query.scan_limit.max(1) {
            return Ok(Offer::Refused);
        }
        self.scanned += 1;
        if !is_wanted || !self.is_by_principal(row)? {
            return Ok(Offer::Done);
        }
        let (before, after) = if self.query.with_values {
            (rows::optional_bytes(row, 5)?, rows::optional_bytes(row, 6)?)
        } else {
            (None, None)
        };
        let entry = LogEntry {
            revision,
            encoded: rows::bytes(row, 1)?,
            before,
            after,
        };
        let values = [&entry.before, &entry.after].map(|value| value.as_ref().map_or(0, |value| value.len()));
        let size_bytes = entry.encoded.len() + values[0] + values[1];
        let is_full = self.entries.len() >= self.query.entry_limit.max(1)
            || self.used_bytes + size_bytes > self.query.limit_bytes;
        if is_full && !self.entries.is_empty() {
            return Ok(Offer::Refused);
        }
        self.used_bytes += size_bytes;
        self.entries.push(entry);
        Ok(Offer::Done)
    }

    fn is_by_principal(&self, row: &Row<'_>) -> Result<bool, StoreError> {
        match &self.query.principal {
            Some(name) => Ok(rows::text(row, 2)? == name.as_bytes()),
            None => Ok(true),
        }
    }
}

/// Returns the columns that a page reads.
fn columns(with_values: bool) -> &'static str {
    if with_values {
        "revision, entry, principal, table_id, key, before, after"
    } else {
        "revision, entry, principal, table_id, key"
    }
}

/// Reads entry after entry; returns where the page ended, `None` if it has everything up to `last`.
fn scan(
    connection: &Connection,
    query: &LogQuery,
    first: Revision,
    last: Revision,
    page: &mut Page<'_>,
) -> Result<Option<Revision>, StoreError> {
    let selection = query
        .targets
        .as_deref()
        .map(|targets| Selection::new(targets, query.with_sessions));
    let sql = format!(
        "SELECT {} FROM log WHERE revision > ?1 AND revision <= ?2 ORDER BY revision",
        columns(query.with_values)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query((first, last))?;
    let mut expected = first.next();
    while let Some(row) = found.next()? {
        let revision = rows::revision(row, 0)?;
        if revision != expected {
            return Err(missing(expected));
        }
        let is_wanted = match &selection {
            Some(selection) => selection.has(row)?,
            None => true,
        };
        if page.offer(row, revision, is_wanted)? == Offer::Refused {
            return Ok(Some(Revision(revision.0 - 1)));
        }
        expected = expected.next();
    }
    if expected <= last {
        return Err(missing(expected));
    }
    Ok(None)
}

/// Targets as a scan asks for them.
struct Selection<'a> {
    tables: HashSet<TableId>,
    records: HashSet<(TableId, &'a [u8])>,
    with_sessions: bool,
}

impl<'a> Selection<'a> {
    fn new(targets: &'a [Target], with_sessions: bool) -> Selection<'a> {
        let whole = targets.iter().filter(|target| target.key.is_none());
        let records = targets
            .iter()
            .filter_map(|target| Some((target.table, target.key.as_ref()?.as_bytes())));
        Selection {
            tables: whole.map(|target| target.table).collect(),
            records: records.collect(),
            with_sessions,
        }
    }

    fn has(&self, row: &Row<'_>) -> Result<bool, StoreError> {
        let Some(table) = row.get::<_, Option<i64>>(3)?.map(TableId) else {
            return Ok(self.with_sessions);
        };
        if self.tables.contains(&table) {
            return Ok(true);
        }
        Ok(!self.records.is_empty() && self.records.contains(&(table, rows::text(row, 4)?)))
    }
}

/// Merges the revisions of all targets by index; returns where the page ended, `None` if it has everything up to `last`.
///
/// One step of an index per target, and one per entry of the page: however large the log is between them.
fn read_targets(
    connection: &Connection,
    query: &LogQuery,
    targets: &[Target],
    first: Revision,
    last: Revision,
    page: &mut Page<'_>,
) -> Result<Option<Revision>, StoreError> {
    let targets = distinct(targets);
    let ahead = (query.entry_limit.min(AHEAD_MAX) * 2 / targets.len().max(1)).clamp(1, AHEAD_MAX);
    let mut cursors = Vec::with_capacity(targets.len());
    let mut next = BinaryHeap::with_capacity(targets.len());
    for target in targets {
        let mut cursor = TargetCursor {
            target,
            position: first,
            found: VecDeque::new(),
        };
        if let Some(revision) = cursor.next(connection, last, ahead)? {
            next.push(Reverse((revision, cursors.len())));
            cursors.push(cursor);
        }
    }
    let sql = format!(
        "SELECT {} FROM log WHERE revision = ?1",
        columns(query.with_values)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    while let Some(Reverse((revision, index))) = next.pop() {
        let mut found = statement.query([revision])?;
        let row = found.next()?.ok_or(missing(revision))?;
        if page.offer(row, revision, true)? == Offer::Refused {
            return Ok(Some(Revision(revision.0 - 1)));
        }
        let following = match cursors.get_mut(index) {
            Some(cursor) => cursor.next(connection, last, ahead)?,
            None => None,
        };
        if let Some(revision) = following {
            next.push(Reverse((revision, index)));
        }
    }
    Ok(None)
}

/// Returns targets of which no two have a revision in common: each once, and no record of a table that is there as a whole.
fn distinct(targets: &[Target]) -> Vec<&Target> {
    let whole: HashSet<TableId> = targets
        .iter()
        .filter(|target| target.key.is_none())
        .map(|target| target.table)
        .collect();
    let mut seen = HashSet::with_capacity(targets.len());
    targets
        .iter()
        .filter(|target| target.key.is_none() || !whole.contains(&target.table))
        .filter(|target| seen.insert(*target))
        .collect()
}

/// The revisions of one target, some read ahead.
struct TargetCursor<'a> {
    target: &'a Target,
    /// Everything up to here was read.
    position: Revision,
    found: VecDeque<Revision>,
}

impl TargetCursor<'_> {
    fn next(
        &mut self,
        connection: &Connection,
        last: Revision,
        ahead: usize,
    ) -> Result<Option<Revision>, StoreError> {
        if self.found.is_empty() && self.position < last {
            self.read(connection, last, ahead)?;
        }
        Ok(self.found.pop_front())
    }

    fn read(&mut self, connection: &Connection, last: Revision, ahead: usize) -> Result<(), StoreError> {
        let sql = match self.target.key {
            Some(_) => {
                "SELECT revision FROM log INDEXED BY log_by_record WHERE table_id = ?1 AND key = ?2 AND revision > ?3 AND revision <= ?4
                 ORDER BY revision LIMIT ?5"
            }
            None => {
                "SELECT revision FROM log INDEXED BY log_by_table WHERE table_id = ?1 AND ?2 IS NULL AND revision > ?3 AND revision <= ?4
                 ORDER BY revision LIMIT ?5"
            }
        };
        let mut statement = connection.prepare_cached(sql)?;
        let range = (
            self.target.table,
            &self.target.key,
            self.position,
            last,
            sql_limit(ahead),
        );
        for revision in statement.query_map(range, |row| rows::revision(row, 0))? {
            self.found.push_back(revision?);
        }
        self.position = match self.found.back() {
            Some(newest) if self.found.len() == ahead => *newest,
            Some(_) | None => last,
        };
        Ok(())
    }
}

fn missing(revision: Revision) -> StoreError {
    StoreError::Damaged {
        problem: "a missing entry",
        revision,
    }
}
