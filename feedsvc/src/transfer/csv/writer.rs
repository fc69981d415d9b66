//! Writes the records of an export as CSV.

use std::io::{Error, ErrorKind, Write};
use std::sync::Arc;

use super::cell::WrittenCell;
use super::columns::Columns;
use super::shape::write_record;
use crate::catalog::CatalogTable;
use crate::catalog::json::Json;

/// What makes a cell need quotes. A space at an end is text, but not every program takes it for that.
const QUOTED: [char; 4] = [',', '"', '\n', '\r'];

/// Turns records into rows.
pub(in crate::transfer) struct CsvWriter {
    table: Arc<CatalogTable>,
    columns: Columns,
}

impl CsvWriter {
    pub(in crate::transfer) fn new(table: Arc<CatalogTable>, is_plain: bool) -> CsvWriter {
        let columns = Columns::of_table(&table.definition, is_plain);
        CsvWriter { table, columns }
    }

    /// Writes the header.
    pub(in crate::transfer) fn begin(&self, out: &mut dyn Write) -> Result<(), Error> {
        let names = self
            .columns
            .columns
            .iter()
            .map(|column| WrittenCell::Text(column.name.clone()));
        write_row(names, out)
    }

    /// Writes a record.
    pub(in crate::transfer) fn write(&self, value: &[u8], out: &mut dyn Write) -> Result<(), Error> {
        match Json::parse(value) {
            Ok(Json::Object(record)) => {
                write_row(write_record(&self.table.definition, &self.columns, &record), out)
            }
            Ok(_) | Err(_) => Err(Error::new(
                ErrorKind::InvalidData,
                "the service sent a record that is no JSON object; verify its store",
            )),
        }
    }
}

/// Writes a row. It ends with a LF, not with RFC 4180's CRLF: every reader takes it, and line tools of Unix as well.
fn write_row(cells: impl IntoIterator<Item = WrittenCell>, out: &mut dyn Write) -> Result<(), Error> {
    for (index, cell) in cells.into_iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        match cell {
            WrittenCell::Null => {}
            WrittenCell::Text(text) if needs_quotes(&text) => {
                write!(out, "\"{}\"", text.replace('"', "\"\""))?;
            }
            WrittenCell::Text(text) => out.write_all(text.as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty() || text.contains(QUOTED) || text.starts_with(' ') || text.ends_with(' ')
}
