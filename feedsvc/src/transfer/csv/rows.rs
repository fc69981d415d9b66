//! The records of a CSV file, for an import.

use std::sync::Arc;

use bytes::Bytes;

use super::columns::Columns;
use super::reader::{CsvReader, RawRow};
use super::shape::read_record;
use crate::catalog::json::object_to_text;
use crate::catalog::{CatalogTable, GivenTimes};
use crate::transfer::row::{FaultPlace, ReadError, Row, RowFault, attribute_of, describe, make_row};
use crate::transfer::source::Source;

/// How many columns a header may have.
const COLUMN_LIMIT: usize = 10_000;

/// Reads the rows behind a header.
pub(in crate::transfer) struct CsvRows {
    reader: CsvReader,
    row: RawRow,
    columns: Arc<Columns>,
    table: Arc<CatalogTable>,
    times: GivenTimes,
}

impl CsvRows {
    /// Reads the header.
    pub(in crate::transfer) fn open(
        source: Source,
        row_limit_bytes: usize,
        table: Arc<CatalogTable>,
        times: GivenTimes,
    ) -> Result<CsvRows, ReadError> {
        let mut reader = CsvReader::new(source, row_limit_bytes);
        let mut header = RawRow::new(COLUMN_LIMIT);
        let columns = match reader.read(&mut header)? {
            None => return Err(ReadError::Empty),
            Some(Err(fault)) => Err(vec![format!("column {}: {}", fault.column, fault.reason)]),
            Some(Ok(())) => Columns::of_header(&table.definition, &header),
        };
        let columns = columns.map_err(|problems| ReadError::Header { problems })?;
        Ok(CsvRows {
            reader,
            row: RawRow::new(columns.columns.len()),
            columns: Arc::new(columns),
            table,
            times,
        })
    }

    /// Returns the columns of the file.
    pub(in crate::transfer) fn columns(&self) -> Arc<Columns> {
        Arc::clone(&self.columns)
    }

    /// Whether the file ended without a line end.
    pub(in crate::transfer) fn has_open_end(&self) -> bool {
        self.reader.has_open_end()
    }

    /// Reads the next row; `None` at the end of the file.
    pub(in crate::transfer) fn read(&mut self) -> Result<Option<Result<Row, RowFault>>, ReadError> {
        match self.reader.read(&mut self.row)? {
            None => Ok(None),
            Some(Err(fault)) => Ok(Some(Err(RowFault {
                line: fault.line,
                place: FaultPlace::Column(fault.column),
                reason: fault.reason,
            }))),
            Some(Ok(())) => Ok(Some(self.make_row())),
        }
    }

    fn make_row(&self) -> Result<Row, RowFault> {
        let record = read_record(&self.table.definition, &self.columns, &self.row)?;
        let text = Bytes::from(object_to_text(&record));
        make_row(&self.table, self.row.place.line, &record, text, self.times).map_err(|fault| {
            let column = self.columns.find(attribute_of(&fault.attribute));
            RowFault {
                line: column
                    .and_then(|column| self.row.cell(column))
                    .map_or(self.row.place.line, |cell| cell.place.line),
                place: column.map_or(FaultPlace::Row, |column| FaultPlace::Column(column + 1)),
                reason: describe(&fault),
            }
        })
    }
}
