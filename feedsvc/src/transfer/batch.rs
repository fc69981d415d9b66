//! Reads rows and gathers them into batches, on a thread of its own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proto::feed::v1::record_operation::Action;
use tokio::sync::mpsc;

use super::csv::{Columns, CsvRows};
use super::format::Format;
use super::jsonl::JsonlRows;
use super::row::{ReadError, Row, RowFault};
use super::source::{Source, SourceError};
use crate::catalog::{CatalogTable, GivenTimes};

/// How many records a batch has.
const BATCH_RECORDS: usize = 256;
/// From which size on a batch takes no further record: far below the limit of a commit, and one transaction's worth.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How far reading is ahead of committing, in batches and bad rows.
const AHEAD: usize = 2;

/// What reading a file brings, in the order of the file.
pub(super) enum Item {
    Batch(Batch),
    Bad(RowFault),
    /// Nothing more comes.
    End(Result<FileEnd, ReadError>),
}

/// How a file ended that was read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileEnd {
    /// With a line end, or where a missing one does no harm.
    Whole,
    /// Without a line end in CSV, so the last cell may have been cut without a trace.
    Open,
}

/// Rows that are sent together.
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    /// The columns, in CSV.
    pub(super) columns: Option<Arc<Columns>>,
}

/// What is read, and how.
pub(super) struct Reading {
    pub(super) file: PathBuf,
    pub(super) format: Format,
    pub(super) table: Arc<CatalogTable>,
    pub(super) times: GivenTimes,
    pub(super) row_limit_bytes: usize,
    /// Whether to go on behind a bad row.
    pub(super) skip_bad: bool,
    pub(super) read_bytes: Arc<AtomicU64>,
}

/// Begins to read on a thread of its own, which ends when the receiver is dropped or everything was sent.
///
/// The thread is not waited for: it may stand in a read from a terminal or a pipe that never ends, and holds nothing.
pub(super) fn start(reading: Reading) -> Result<mpsc::Receiver<Item>, std::io::Error> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || {
            let end = read(reading, &sender);
            if let Some(end) = end {
                // Nobody may be waiting any more.
                let _ = sender.blocking_send(Item::End(end));
            }
        })?;
    Ok(receiver)
}

/// Opens a file, or the standard input for `-`.
pub(super) fn open_file(file: &Path) -> Result<Box<dyn Read + Send>, std::io::Error> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let opened = std::fs::File::open(file)?;
    if opened.metadata()?.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    Ok(Box::new(opened))
}

enum Rows {
    Csv(Box<CsvRows>),
    Jsonl(JsonlRows),
}

impl Rows {
    fn read(&mut self) -> Result<Option<Result<Row, RowFault>>, ReadError> {
        match self {
            Rows::Csv(rows) => rows.read(),
            Rows::Jsonl(rows) => rows.read(),
        }
    }

    fn end(&self) -> FileEnd {
        match self {
            Rows::Csv(rows) if rows.has_open_end() => FileEnd::Open,
            // A cut line is no JSON object, so it cannot pass.
            Rows::Csv(_) | Rows::Jsonl(_) => FileEnd::Whole,
        }
    }
}

/// Reads everything; `None` when nobody listens any more.
fn read(reading: Reading, sender: &mpsc::Sender<Item>) -> Option<Result<FileEnd, ReadError>> {
    let mut rows = match open_rows(&reading) {
        Ok(rows) => rows,
        Err(error) => return Some(Err(error)),
    };
    let columns = match &rows {
        Rows::Csv(rows) => Some(rows.columns()),
        Rows::Jsonl(_) => None,
    };
    let (mut batch, mut batch_bytes) = (Vec::new(), 0);
    let send = |rows: &mut Vec<Row>| {
        let batch = Batch {
            rows: std::mem::take(rows),
            columns: columns.clone(),
        };
        batch.rows.is_empty() || sender.blocking_send(Item::Batch(batch)).is_ok()
    };
    loop {
        match rows.read() {
            Ok(Some(Ok(row))) => {
                let row_bytes = size_bytes(&row);
                if batch_bytes + row_bytes > BATCH_BYTES && !send(&mut batch) {
                    return None;
                }
                if batch.is_empty() {
                    batch_bytes = 0;
                }
                batch_bytes += row_bytes;
                batch.push(row);
                if batch.len() >= BATCH_RECORDS && !send(&mut batch) {
                    return None;
                }
            }
            Ok(Some(Err(fault))) => {
                // What stands before a bad row is imported before the import stops at it.
                if !reading.skip_bad && !send(&mut batch) {
                    return None;
                }
                if sender.blocking_send(Item::Bad(fault)).is_err() || !reading.skip_bad {
                    return None;
                }
            }
            Ok(None) => return send(&mut batch).then(|| Ok(rows.end())),
            Err(error) => return send(&mut batch).then_some(Err(error)),
        }
        if batch.is_empty() {
            batch_bytes = 0;
        }
    }
}

fn open_rows(reading: &Reading) -> Result<Rows, ReadError> {
    let file = open_file(&reading.file).map_err(SourceError::Read)?;
    let source = Source::open(file, Arc::clone(&reading.read_bytes))?;
    let (limit_bytes, table, times) = (reading.row_limit_bytes, Arc::clone(&reading.table), reading.times);
    Ok(match reading.format {
        Format::Csv => Rows::Csv(Box::new(CsvRows::open(source, limit_bytes, table, times)?)),
        Format::Jsonl => Rows::Jsonl(JsonlRows::new(source, limit_bytes, table, times)),
    })
}

fn size_bytes(row: &Row) -> usize {
    let value = match &row.operation.action {
        Some(Action::Put(put)) => put.value.len(),
        Some(Action::Patch(_) | Action::Delete(_)) | None => 0,
    };
    value + row.operation.key.len()
}
