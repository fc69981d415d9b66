//! A row of a file as a record that fits its table, or why it is none.

use std::fmt;

use bytes::Bytes;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{Put, RecordOperation};

use super::source::{Place, SourceError};
use crate::catalog::json::{Json, JsonObject};
use crate::catalog::{CatalogTable, GivenTimes, RecordFault, check_record};

/// The longest key of a record (feed.proto).
const KEY_LIMIT_BYTES: usize = 1_024;

/// A row that can be sent.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The first line of the row in the file.
    pub(super) line: u64,
    pub(super) operation: RecordOperation,
    /// The record has a value for a time that the service would fill in.
    pub(super) has_times: bool,
}

/// Why a row cannot be imported; the rows after it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowFault {
    /// 1-based, in the file.
    pub(super) line: u64,
    pub(super) place: FaultPlace,
    pub(super) reason: String,
}

/// Where in a row the fault is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FaultPlace {
    /// The row as a whole.
    Row,
    /// A cell, 1-based.
    Column(usize),
    /// A place in a line of JSON, 1-based.
    Text { character: usize, byte: usize },
}

/// Why the rest of a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{0}")]
    Source(#[from] SourceError),
    /// All that is wrong with a header.
    #[error("line 1: the header does not fit: {}", problems.join("; "))]
    Header { problems: Vec<String> },
    #[error("the file is empty; expected a header row with the names of columns")]
    Empty,
    /// Where the row ends cannot be known, so neither can the rows behind it.
    #[error(
        "line {}: column {column}: the quoted cell that begins here (byte {} of the file) {problem}; {advice}",
        place.line, place.offset + 1
    )]
    OpenCell {
        place: Place,
        column: usize,
        problem: String,
        advice: &'static str,
    },
}

impl fmt::Display for RowFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.line)?;
        match self.place {
            FaultPlace::Row => {}
            FaultPlace::Column(column) => write!(formatter, "column {column}: ")?,
            FaultPlace::Text { character, byte } if character == byte => {
                write!(formatter, "column {byte}: ")?
            }
            FaultPlace::Text { character, byte } => write!(formatter, "column {character} (byte {byte}): ")?,
        }
        formatter.write_str(&self.reason)
    }
}

/// Makes a row of a record; `text` is the record as it will be sent.
///
/// # Errors
/// The key or an attribute does not fit the table; the service would refuse it as well.
pub(super) fn make_row(
    table: &CatalogTable,
    line: u64,
    record: &JsonObject,
    text: Bytes,
    times: GivenTimes,
) -> Result<Row, RecordFault> {
    let key = find_key(table, record)?;
    let has_times = times == GivenTimes::Kept
        && table.definition.attributes.iter().any(|attribute| {
            attribute.is_stamped() && !matches!(record.get(&attribute.name), None | Some(Json::Null))
        });
    let row_times = if has_times {
        GivenTimes::Kept
    } else {
        GivenTimes::Replaced
    };
    check_record(table, &key, &text, row_times)?;
    Ok(Row {
        line,
        operation: RecordOperation {
            database: table.name.database.clone(),
            table: table.name.table.clone(),
            key,
            precondition: None,
            action: Some(Action::Put(Put { value: text })),
        },
        has_times,
    })
}

/// Returns the key of a record that carries its primary key.
fn find_key(table: &CatalogTable, record: &JsonObject) -> Result<String, RecordFault> {
    let Some((attribute, scalar)) = table.definition.find_primary_key() else {
        return Err(RecordFault {
            table: table.name.clone(),
            attribute: String::new(),
            found: "a table without primary key".to_owned(),
            allowed: "nothing".to_owned(),
        });
    };
    let fault = |found: String, allowed: String| RecordFault {
        table: table.name.clone(),
        attribute: attribute.name.clone(),
        found,
        allowed,
    };
    let key = match record.get(&attribute.name) {
        None => return Err(fault("missing".to_owned(), "the record's key".to_owned())),
        Some(Json::String(text)) | Some(Json::Number(text)) => text,
        Some(other) => return Err(fault(other.describe(), scalar.allowed().to_owned())),
    };
    if key.is_empty() {
        return Err(fault("empty".to_owned(), "a key of at least one byte".to_owned()));
    }
    if key.len() > KEY_LIMIT_BYTES {
        let found = format!("a key of {} bytes", key.len());
        return Err(fault(found, format!("a key of at most {KEY_LIMIT_BYTES} bytes")));
    }
    Ok(key.clone())
}

/// Says what is wrong with a record, without the name of the table, which is the same for all rows.
pub(super) fn describe(fault: &RecordFault) -> String {
    let (found, allowed) = (&fault.found, &fault.allowed);
    if fault.attribute.is_empty() {
        format!("{found}; allowed is {allowed}")
    } else {
        format!("attribute `{}` is {found}; allowed is {allowed}", fault.attribute)
    }
}

/// Returns the attribute of a record that a place in it, like `tags[1]` or `data.x`, is in.
pub(super) fn attribute_of(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or_default()
}
