//! Finds the rows and cells of a file.
//!
//! Strict where RFC 4180 is, so that a damaged file is noticed: a quote inside a cell that does not begin with one, text
//! behind a closing quote, and a quoted cell that never ends are faults. Rows end with LF, CRLF or a lone CR; inside quotes
//! these are text.

use super::super::row::ReadError;
use super::super::source::{Place, Source};

/// The rows of a file, one after the other.
pub(super) struct CsvReader {
    source: Source,
    row_limit_bytes: usize,
    /// The file ended within a row, so its last row may have been cut.
    has_open_end: bool,
}

/// A row as it stands in the file, without its quotes.
#[derive(Debug)]
pub(super) struct RawRow {
    /// The texts of all cells, one behind the other.
    text: Vec<u8>,
    cells: Vec<RawCell>,
    /// How many cells the row has; only the first `cell_limit` of them are kept.
    pub(super) cell_count: usize,
    cell_limit: usize,
    pub(super) place: Place,
}

/// Where a cell is.
#[derive(Clone, Copy, Debug)]
struct RawCell {
    start: usize,
    end: usize,
    is_quoted: bool,
    /// Of its first byte, behind the quote if there is one.
    place: Place,
}

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    pub(super) text: &'a [u8],
    /// Quoted: an empty one is then an empty text, and not nothing.
    pub(super) is_quoted: bool,
    pub(super) place: Place,
}

/// What is wrong with a row; the next one begins at the next line.
#[derive(Debug)]
pub(super) struct ShapeFault {
    pub(super) line: u64,
    /// 1-based.
    pub(super) column: usize,
    pub(super) reason: String,
}

/// What stands behind a cell.
enum CellEnd {
    Comma,
    Row,
    Fault(ShapeFault),
}

impl RawRow {
    /// Makes an empty row that keeps at most `cell_limit` cells.
    pub(super) fn new(cell_limit: usize) -> RawRow {
        RawRow {
            text: Vec::new(),
            cells: Vec::new(),
            cell_count: 0,
            cell_limit,
            place: Place { line: 1, offset: 0 },
        }
    }

    /// Returns a cell by its position, from 0.
    pub(super) fn cell(&self, index: usize) -> Option<Cell<'_>> {
        let cell = self.cells.get(index)?;
        Some(Cell {
            text: self.text.get(cell.start..cell.end)?,
            is_quoted: cell.is_quoted,
            place: cell.place,
        })
    }

    fn clear(&mut self, place: Place) {
        self.text.clear();
        // A single huge row must not be paid for until the end of the file.
        self.text.shrink_to(64 * 1024);
        self.cells.clear();
        self.cell_count = 0;
        self.place = place;
    }

    fn push(&mut self, start: usize, is_quoted: bool, place: Place) {
        self.cell_count += 1;
        if self.cells.len() < self.cell_limit {
            self.cells.push(RawCell {
                start,
                end: self.text.len(),
                is_quoted,
                place,
            });
        }
    }

    fn is_blank(&self) -> bool {
        self.cell_count == 1
            && self
                .cells
                .first()
                .is_some_and(|cell| cell.start == cell.end && !cell.is_quoted)
    }
}

impl CsvReader {
    pub(super) fn new(source: Source, row_limit_bytes: usize) -> CsvReader {
        CsvReader {
            source,
            row_limit_bytes,
            has_open_end: false,
        }
    }

    /// Whether the file ended without a line end.
    pub(super) fn has_open_end(&self) -> bool {
        self.has_open_end
    }

    /// Reads the next row that is not blank; `None` at the end of the file.
    pub(super) fn read(&mut self, row: &mut RawRow) -> Result<Option<Result<(), ShapeFault>>, ReadError> {
        loop {
            if self.source.peek()?.is_empty() {
                return Ok(None);
            }
            row.clear(self.source.place());
            if let Err(fault) = self.read_cells(row)? {
                self.source.skip_line()?;
                return Ok(Some(Err(fault)));
            }
            if !row.is_blank() {
                return Ok(Some(Ok(())));
            }
        }
    }

    fn read_cells(&mut self, row: &mut RawRow) -> Result<Result<(), ShapeFault>, ReadError> {
        loop {
            let end = if self.source.peek()?.first() == Some(&b'"') {
                self.read_quoted(row)?
            } else {
                self.read_unquoted(row)?
            };
            match end {
                CellEnd::Comma => {}
                CellEnd::Row => return Ok(Ok(())),
                CellEnd::Fault(fault) => return Ok(Err(fault)),
            }
        }
    }

    fn read_unquoted(&mut self, row: &mut RawRow) -> Result<CellEnd, ReadError> {
        let (place, start) = (self.source.place(), row.text.len());
        loop {
            let bytes = self.source.peek()?;
            if bytes.is_empty() {
                self.has_open_end = true;
                row.push(start, false, place);
                return Ok(CellEnd::Row);
            }
            let found = bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b'\n' | b'\r' | b'"'));
            let length = found.unwrap_or(bytes.len());
            let special = found.and_then(|at| bytes.get(at)).copied();
            if row.text.len() + length > self.row_limit_bytes {
                return Ok(fault(
                    row,
                    row.place.line,
                    format!("the row is larger than {} bytes, the limit", self.row_limit_bytes),
                ));
            }
            row.text.extend_from_slice(&bytes[..length]);
            self.source.advance(length);
            match special {
                None => {}
                Some(b',') => {
                    self.source.advance(1);
                    row.push(start, false, place);
                    return Ok(CellEnd::Comma);
                }
                Some(b'"') => {
                    let reason = "a quote inside a cell that does not begin with one; quote the cell and double its quotes";
                    return Ok(fault(row, place.line, reason.to_owned()));
                }
                Some(line_end) => {
                    self.source.end_line(line_end);
                    row.push(start, false, place);
                    return Ok(CellEnd::Row);
                }
            }
        }
    }

    fn read_quoted(&mut self, row: &mut RawRow) -> Result<CellEnd, ReadError> {
        self.source.advance(1);
        let (place, start) = (self.source.place(), row.text.len());
        loop {
            let bytes = self.source.peek()?;
            if bytes.is_empty() {
                return Err(ReadError::OpenCell {
                    place,
                    column: row.cell_count + 1,
                    problem: "is not closed when the file ends".to_owned(),
                    advice: "the file was cut, or a quote in it is not doubled",
                });
            }
            let found = bytes.iter().position(|byte| matches!(byte, b'"' | b'\n' | b'\r'));
            let length = found.unwrap_or(bytes.len());
            let special = found.and_then(|at| bytes.get(at)).copied();
            if row.text.len() + length > self.row_limit_bytes {
                return Err(ReadError::OpenCell {
                    place,
                    column: row.cell_count + 1,
                    problem: format!(
                        "makes the row larger than {} bytes, the limit",
                        self.row_limit_bytes
                    ),
                    advice: "correct the file if a quote in it is not doubled, or raise --row-bytes",
                });
            }
            row.text.extend_from_slice(&bytes[..length]);
            self.source.advance(length);
            match special {
                None => {}
                Some(b'"') => {
                    self.source.advance(1);
                    let behind = self.source.peek()?.first().copied();
                    match behind {
                        Some(b'"') => {
                            self.source.advance(1);
                            row.text.push(b'"');
                        }
                        Some(b',') => {
                            self.source.advance(1);
                            row.push(start, true, place);
                            return Ok(CellEnd::Comma);
                        }
                        Some(line_end @ (b'\n' | b'\r')) => {
                            self.source.end_line(line_end);
                            row.push(start, true, place);
                            return Ok(CellEnd::Row);
                        }
                        None => {
                            self.has_open_end = true;
                            row.push(start, true, place);
                            return Ok(CellEnd::Row);
                        }
                        Some(_) => {
                            let reason =
                                "text behind the closing quote; double the quotes inside a quoted cell";
                            return Ok(fault(row, self.source.place().line, reason.to_owned()));
                        }
                    }
                }
                Some(line_end) => {
                    let text = self.source.take_line_end(line_end)?;
                    row.text.extend_from_slice(text);
                }
            }
        }
    }
}

/// A fault in the cell that is being read.
fn fault(row: &RawRow, line: u64, reason: String) -> CellEnd {
    CellEnd::Fault(ShapeFault {
        line,
        column: row.cell_count + 1,
        reason,
    })
}
