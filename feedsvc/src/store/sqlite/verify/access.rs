//! The access log: dense from its oldest number to its newest, its entries chained, its columns what the entries say.

use prost::Message;
use proto::feed::v1::AccessEntry;
use rusqlite::{Connection, Row};

use super::report::{PAGE_LIMIT_BYTES, PAGE_ROWS, Report};
use crate::access_log;
use crate::store::sqlite::read::SqliteReader;
use crate::store::sqlite::rows;
use crate::store::sqlite::rows::sql_limit;
use crate::store::{Place, StoreError};

/// Checks the access log up to its newest entry at this moment.
pub(super) fn check(reader: &SqliteReader, report: &mut Report<'_>) -> Result<(), StoreError> {
    let verified = access_log::verify(reader, &|| report.check_goes_on())?;
    report.verification.access_entries = verified.entries;
    if let Some(finding) = verified.finding {
        note(report, finding.number, finding.problem);
    }
    let mut walk = Some(Walk::default());
    while let Some(position) = walk {
        report.check_goes_on()?;
        walk = reader.read(|connection, _| check_page(connection, position, report))?;
    }
    Ok(())
}

fn note(report: &mut Report<'_>, number: u64, problem: &str) {
    report.note(Place::AccessLog { number }, problem);
}

/// How far the check of the columns has come.
#[derive(Clone, Copy, Default)]
struct Walk {
    after: i64,
    recorded_ms: i64,
}

/// Compares a page of entries with the columns by which they are found and kept; returns where the next begins.
fn check_page(
    connection: &Connection,
    walk: Walk,
    report: &mut Report<'_>,
) -> Result<Option<Walk>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, recorded_ms, time_ms, principal, method, entry FROM access_log
         WHERE number > ?1 ORDER BY number LIMIT ?2",
    )?;
    let mut found = statement.query((walk.after, sql_limit(PAGE_ROWS)))?;
    let (mut walk, mut row_count, mut used_bytes) = (walk, 0, 0);
    while let Some(row) = found.next()? {
        let number: i64 = row.get(0)?;
        let recorded_ms: i64 = row.get(1)?;
        if recorded_ms < walk.recorded_ms {
            let problem = "it was recorded before the entry before";
            note(report, number.cast_unsigned(), problem);
        }
        if let Some(problem) = find_contradiction(row)? {
            note(report, number.cast_unsigned(), problem);
        }
        walk = Walk {
            after: number,
            recorded_ms: walk.recorded_ms.max(recorded_ms),
        };
        row_count += 1;
        used_bytes += rows::text(row, 5)?.len();
        if used_bytes > PAGE_LIMIT_BYTES {
            return Ok(Some(walk));
        }
    }
    Ok((row_count == PAGE_ROWS).then_some(walk))
}

fn find_contradiction(row: &Row<'_>) -> Result<Option<&'static str>, StoreError> {
    let Ok(entry) = AccessEntry::decode(rows::text(row, 5)?) else {
        return Ok(Some("the entry does not parse"));
    };
    if entry.number != row.get::<_, i64>(0)?.cast_unsigned() {
        return Ok(Some("the entry has another number"));
    }
    if entry.time_ms != row.get::<_, i64>(2)? {
        return Ok(Some("the entry has another time"));
    }
    if entry.principal.as_bytes() != rows::text(row, 3)? {
        return Ok(Some("the entry has another principal"));
    }
    if entry.method.as_bytes() != rows::text(row, 4)? {
        return Ok(Some("the entry has another method"));
    }
    Ok(None)
}
