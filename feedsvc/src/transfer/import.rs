//! Commits the rows of a file, batch by batch, in the order of the file.
//!
//! A batch is sent under a key of this run, so that sending it again after a broken call is no second commit, and with
//! `skip_equal`, so that running the command again leaves what is there without a trace. A key over the content alone would be
//! shorter, and wrong: a file that is imported again after somebody changed a record would be taken for a repetition.

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::Reason;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::{CommitRequest, CommitResponse};
use tokio::sync::mpsc;

use super::arguments::ImportArguments;
use super::batch::{self, Batch, FileEnd, Item, Reading};
use super::connection::{CallFailure, Connection};
use super::format::Format;
use super::interrupt::Interrupt;
use super::jsonl;
use super::outcome::{self, Told, TransferError};
use super::progress::{Data, Progress, Unit};
use super::row::{FaultPlace, Row, RowFault, attribute_of};
use super::table::find_table;
use crate::catalog::{CatalogTable, GivenTimes};

/// Runs `feedsvc import`.
pub(crate) fn import(arguments: ImportArguments) -> ExitCode {
    outcome::run(|interrupt| import_to_end(arguments, interrupt))
}

/// Does what the command line says, with what is opened for it closed again.
pub(super) async fn import_to_end(
    arguments: ImportArguments,
    interrupt: Interrupt,
) -> Result<(), (TransferError, Told)> {
    let connection = Connection::open(&arguments.feed)
        .await
        .map_err(|error| (error, Told::NotYet))?;
    let outcome = import_file(&arguments, &connection, &interrupt).await;
    let closed = connection.close().await.map_err(|error| (error, Told::NotYet));
    outcome.and(closed)
}

async fn import_file(
    arguments: &ImportArguments,
    connection: &Connection,
    interrupt: &Interrupt,
) -> Result<(), (TransferError, Told)> {
    let begun = begin(arguments, connection, interrupt).await;
    let (table, items, mut import) = begun.map_err(|error| (error, Told::NotYet))?;
    let outcome = import.run(items).await;
    import.sum_up(&table, outcome)
}

/// Finds out what is to be done, and begins to read.
async fn begin<'a>(
    arguments: &'a ImportArguments,
    connection: &'a Connection,
    interrupt: &'a Interrupt,
) -> Result<(Arc<CatalogTable>, mpsc::Receiver<Item>, Import<'a>), TransferError> {
    let file = &arguments.file;
    let format = arguments.format.or_else(|| Format::of_file(file));
    let format = format.ok_or_else(|| TransferError::UnknownFormat { file: file.clone() })?;
    let total_bytes = size_of(file).map_err(|source| TransferError::NoFile {
        file: file.display().to_string(),
        source,
    })?;
    let tables = connection.get_tables(interrupt).await?;
    let table = find_table(&tables, &arguments.table)?;
    let read_bytes = Arc::new(AtomicU64::new(0));
    let items = batch::start(Reading {
        file: file.clone(),
        format,
        table: Arc::clone(&table),
        times: if arguments.new_times {
            GivenTimes::Replaced
        } else {
            GivenTimes::Kept
        },
        row_limit_bytes: arguments.row_bytes,
        skip_bad: arguments.skip_bad,
        read_bytes: Arc::clone(&read_bytes),
    });
    let import = Import {
        connection,
        interrupt,
        progress: Progress::begin(Unit::Bytes, total_bytes, Data::Elsewhere),
        arguments,
        file: file.display().to_string(),
        run: run_name().map_err(TransferError::Runtime)?,
        batch_count: 0,
        counts: Counts::default(),
        read_bytes,
    };
    Ok((table, items.map_err(TransferError::Runtime)?, import))
}

/// Returns the size of a regular file; of others it is not known.
fn size_of(file: &Path) -> Result<Option<u64>, std::io::Error> {
    if file == Path::new("-") {
        return Ok(None);
    }
    let metadata = std::fs::metadata(file)?;
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// Returns 96 random bits as hex digits: what no other run has.
fn run_name() -> Result<String, std::io::Error> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What became of the rows so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    read: u64,
    written: u64,
    /// The record was there already, just so.
    unchanged: u64,
    skipped: u64,
}

/// A running import.
struct Import<'a> {
    connection: &'a Connection,
    interrupt: &'a Interrupt,
    progress: Progress,
    arguments: &'a ImportArguments,
    /// As messages name it.
    file: String,
    run: String,
    batch_count: u64,
    counts: Counts,
    read_bytes: Arc<AtomicU64>,
}

impl Import<'_> {
    async fn run(&mut self, mut items: mpsc::Receiver<Item>) -> Result<(), TransferError> {
        loop {
            let item = tokio::select! {
                biased;
                () = self.interrupt.asked() => return Err(TransferError::Interrupted),
                item = items.recv() => item,
            };
            match item {
                None => {
                    return Err(TransferError::ReaderLost {
                        file: self.file.clone(),
                    });
                }
                Some(Item::Batch(batch)) => self.commit(&batch).await?,
                Some(Item::Bad(fault)) => {
                    self.counts.read += 1;
                    self.leave_out(&fault)?;
                }
                Some(Item::End(Ok(end))) => {
                    if end == FileEnd::Open {
                        self.progress.tell(&format!(
                            "{} does not end with a line end; if it was cut, its last row may have been too",
                            self.file
                        ));
                    }
                    return Ok(());
                }
                Some(Item::End(Err(source))) => {
                    return Err(TransferError::Read {
                        file: self.file.clone(),
                        source,
                    });
                }
            }
            self.progress
                .show(self.read_bytes.load(Ordering::Relaxed), self.counts.read);
        }
    }

    /// Commits a batch. When the service refuses it because of a record, the batch is halved until that record is alone,
    /// with what stands before it committed first.
    async fn commit(&mut self, batch: &Batch) -> Result<(), TransferError> {
        self.batch_count += 1;
        self.counts.read += count(batch.rows.len());
        let whole = 0..batch.rows.len();
        let mut parts = Vec::from([whole]);
        while let Some(part) = parts.pop() {
            let Some(rows) = batch.rows.get(part.clone()).filter(|rows| !rows.is_empty()) else {
                continue;
            };
            let answer = self.send(rows, &part).await;
            match answer {
                Ok(answer) => {
                    let unchanged = answer
                        .results
                        .iter()
                        .filter(|result| result.revision == 0)
                        .count();
                    self.counts.unchanged += count(unchanged);
                    self.counts.written += count(rows.len().saturating_sub(unchanged));
                }
                Err(CallFailure::Refused {
                    reason,
                    message,
                    attribute,
                }) if is_about_a_record(reason) => match rows {
                    [row] => {
                        let fault = refused(row, batch, message, attribute.as_deref());
                        if reason == Reason::PermissionDenied {
                            // Not a matter of the row's data, so not to be skipped either.
                            return Err(TransferError::Denied {
                                file: self.file.clone(),
                                fault: fault.to_string(),
                            });
                        }
                        self.leave_out(&fault)?;
                    }
                    _ => {
                        let middle = part.start + rows.len() / 2;
                        parts.push(middle..part.end);
                        parts.push(part.start..middle);
                    }
                },
                Err(failure) => return Err(self.not_written(rows, failure)),
            }
        }
        Ok(())
    }

    async fn send(&self, rows: &[Row], part: &Range<usize>) -> Result<CommitResponse, CallFailure> {
        let key = format!(
            "import/{}/{}/{}-{}",
            self.run, self.batch_count, part.start, part.end
        );
        let request = CommitRequest {
            operations: rows.iter().map(|row| row.operation.clone()).collect(),
            idempotency_key: key,
            skip_equal: true,
            keep_times: rows.iter().any(|row| row.has_times),
            ..CommitRequest::default()
        };
        let call = || self.connection.client.commit(request.clone());
        self.connection
            .persist(self.interrupt, &self.progress, call)
            .await
    }

    /// Passes over a bad row, if that is allowed.
    fn leave_out(&mut self, fault: &RowFault) -> Result<(), TransferError> {
        if !self.arguments.skip_bad {
            return Err(TransferError::BadRow {
                file: self.file.clone(),
                fault: fault.to_string(),
            });
        }
        self.counts.skipped += 1;
        let report = self.arguments.report;
        if self.counts.skipped <= report {
            self.progress.tell(&format!("skipped {}:{fault}", self.file));
        } else if self.counts.skipped == report + 1 {
            self.progress
                .tell("further bad rows are only counted; see --report");
        }
        Ok(())
    }

    fn not_written(&self, rows: &[Row], failure: CallFailure) -> TransferError {
        let first = rows.first().map_or(0, |row| row.line);
        let last = rows.last().map_or(0, |row| row.line);
        let file = self.file.clone();
        match failure {
            CallFailure::Away(problem) => TransferError::AwayWhileWriting {
                file,
                first,
                last,
                name: self.connection.name().to_owned(),
                problem,
            },
            CallFailure::Refused { message, .. } => TransferError::Refused {
                file,
                first,
                last,
                problem: message,
            },
            CallFailure::Failed(problem) => TransferError::Refused {
                file,
                first,
                last,
                problem,
            },
            CallFailure::Interrupted => {
                self.progress.tell(&format!(
                    "ended while lines {first} to {last} of `{file}` were being written; whether these rows are in is not known"
                ));
                TransferError::Interrupted
            }
        }
    }

    /// Tells the error, if there is one, and then the summary.
    fn sum_up(
        self,
        table: &CatalogTable,
        outcome: Result<(), TransferError>,
    ) -> Result<(), (TransferError, Told)> {
        self.progress.clear();
        let Counts {
            read,
            written,
            unchanged,
            skipped,
        } = self.counts;
        let counts = format!("{read} rows read, {written} written, {unchanged} unchanged, {skipped} skipped");
        let (file, table) = (&self.file, &table.name);
        match outcome {
            Ok(()) => {
                self.progress
                    .finish(&format!("imported {file} into {table}: {counts}"), read, "");
                Ok(())
            }
            Err(error) => {
                error.tell();
                self.progress.finish(
                    &format!("import of {file} into {table} stopped: {counts}"),
                    read,
                    "; what is written stays, the same command again completes it",
                );
                Err((error, Told::Already))
            }
        }
    }
}

/// Whether a commit was refused because of one of its records.
fn is_about_a_record(reason: Reason) -> bool {
    match reason {
        Reason::InvalidRecord
        | Reason::TooLarge
        | Reason::InvalidArgument
        | Reason::PreconditionFailed
        | Reason::PermissionDenied => true,
        Reason::InvalidCursor
        | Reason::UnknownFeed
        | Reason::UnknownTable
        | Reason::IdempotencyKeyReused
        | Reason::UnknownSession
        | Reason::ForeignSession
        | Reason::NoStream
        | Reason::Fenced
        | Reason::TooManySubscriptions
        | Reason::TooManySessions
        | Reason::ScanLimit
        | Reason::Compacted
        | Reason::LostHistory
        | Reason::BackupFailed
        | Reason::Unavailable
        | Reason::Internal => false,
    }
}

/// Returns the fault of a row that the service refused.
fn refused(row: &Row, batch: &Batch, reason: String, attribute: Option<&str>) -> RowFault {
    let place = match (attribute.filter(|name| !name.is_empty()), &batch.columns) {
        (None, _) => FaultPlace::Row,
        (Some(name), Some(columns)) => columns
            .find(attribute_of(name))
            .map_or(FaultPlace::Row, |column| FaultPlace::Column(column + 1)),
        (Some(name), None) => match &row.operation.action {
            Some(Action::Put(put)) => jsonl::place_of(&put.value, name),
            Some(Action::Patch(_) | Action::Delete(_)) | None => FaultPlace::Row,
        },
    };
    RowFault {
        line: row.line,
        place,
        reason,
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
