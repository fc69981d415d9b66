//! JSON Lines: one record on each line, as it is stored, digit for digit.

use std::io::{Error, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::csv::no_utf8;
use super::row::{FaultPlace, ReadError, Row, RowFault, attribute_of, describe, make_row};
use super::source::{Place, Source, find_line_end};
use crate::catalog::json::{Json, offset_of_attribute};
use crate::catalog::{CatalogTable, GivenTimes};

/// Reads the records of a file, for an import.
pub(super) struct JsonlRows {
    source: Source,
    line: Vec<u8>,
    row_limit_bytes: usize,
    table: Arc<CatalogTable>,
    times: GivenTimes,
}

/// What a line is.
enum Line {
    Text(Place),
    TooLong(Place),
}

impl JsonlRows {
    pub(super) fn new(
        source: Source,
        row_limit_bytes: usize,
        table: Arc<CatalogTable>,
        times: GivenTimes,
    ) -> JsonlRows {
        JsonlRows {
            source,
            line: Vec::new(),
            row_limit_bytes,
            table,
            times,
        }
    }

    /// Reads the next line that is not blank; `None` at the end of the file.
    pub(super) fn read(&mut self) -> Result<Option<Result<Row, RowFault>>, ReadError> {
        loop {
            match self.read_line()? {
                None => return Ok(None),
                Some(Line::TooLong(place)) => {
                    return Ok(Some(Err(RowFault {
                        line: place.line,
                        place: FaultPlace::Row,
                        reason: format!(
                            "the line is larger than {} bytes, the limit",
                            self.row_limit_bytes
                        ),
                    })));
                }
                Some(Line::Text(place)) => {
                    if !self.line.trim_ascii().is_empty() {
                        return Ok(Some(self.make_row(place)));
                    }
                }
            }
        }
    }

    /// Reads a line without its end into `line`; passes over one that is too long without keeping it.
    fn read_line(&mut self) -> Result<Option<Line>, ReadError> {
        self.line.clear();
        // A single huge line must not be paid for until the end of the file.
        self.line.shrink_to(64 * 1024);
        if self.source.peek()?.is_empty() {
            return Ok(None);
        }
        let place = self.source.place();
        loop {
            let bytes = self.source.peek()?;
            if bytes.is_empty() {
                return Ok(Some(Line::Text(place)));
            }
            let end = find_line_end(bytes);
            let length = end.map_or(bytes.len(), |(at, _)| at);
            if self.line.len() + length > self.row_limit_bytes {
                self.line.clear();
                self.source.skip_line()?;
                return Ok(Some(Line::TooLong(place)));
            }
            self.line.extend_from_slice(&bytes[..length]);
            self.source.advance(length);
            if let Some((_, byte)) = end {
                self.source.end_line(byte);
                return Ok(Some(Line::Text(place)));
            }
        }
    }

    /// Returns how much memory the line takes.
    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.line.capacity()
    }

    fn make_row(&self, place: Place) -> Result<Row, RowFault> {
        let fault = |place_in_line, reason| RowFault {
            line: place.line,
            place: place_in_line,
            reason,
        };
        if let Err(error) = std::str::from_utf8(&self.line) {
            let (offset, byte) = (error.valid_up_to(), self.line.get(error.valid_up_to()));
            let in_file = place.offset + u64::try_from(offset).unwrap_or_default() + 1;
            let reason = no_utf8(byte.copied().unwrap_or_default(), in_file);
            return Err(fault(place_at(&self.line, offset), reason));
        }
        let record = match Json::parse(&self.line) {
            Ok(Json::Object(record)) => record,
            Ok(other) => {
                let reason = format!("the line is {}; allowed is a JSON object", other.describe());
                return Err(fault(FaultPlace::Row, reason));
            }
            Err(problem) => {
                let reason = format!("not valid JSON: {}; allowed is a JSON object", problem.problem());
                return Err(fault(place_at(&self.line, problem.offset()), reason));
            }
        };
        let text = Bytes::copy_from_slice(self.line.trim_ascii());
        make_row(&self.table, place.line, &record, text, self.times)
            .map_err(|problem| fault(place_of(&self.line, &problem.attribute), describe(&problem)))
    }
}

/// Returns the place of an attribute in a line that is a JSON object, or the whole row.
pub(super) fn place_of(line: &[u8], attribute: &str) -> FaultPlace {
    std::str::from_utf8(line)
        .ok()
        .and_then(|text| offset_of_attribute(text, attribute_of(attribute)))
        .map_or(FaultPlace::Row, |offset| place_at(line, offset))
}

fn place_at(line: &[u8], offset: usize) -> FaultPlace {
    let before = String::from_utf8_lossy(&line[..offset]);
    FaultPlace::Text {
        character: before.chars().count() + 1,
        byte: offset + 1,
    }
}

/// Writes a record.
pub(super) fn write_record(value: &[u8], out: &mut dyn Write) -> Result<(), Error> {
    // The service stores records without line ends.
    out.write_all(value)?;
    out.write_all(b"\n")
}
