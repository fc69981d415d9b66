//! Reads a table page by page, by rising key, and has it written on a thread of its own.

use std::io::{Error, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use proto::feed::v1::{CountRequest, Record, SearchRequest, SearchResponse};
use tokio::sync::mpsc;

use super::arguments::ExportArguments;
use super::connection::{CallFailure, Connection};
use super::csv::CsvWriter;
use super::format::Format;
use super::interrupt::Interrupt;
use super::jsonl;
use super::outcome::{self, Told, TransferError};
use super::progress::{Data, Progress, Unit};
use super::table::find_table;
use super::target::Target;
use crate::catalog::CatalogTable;

/// How many records are asked for at a time; few enough that large records do not make the page long to wait for.
const PAGE_RECORDS: u32 = 500;

/// How long the writer may take to end after a signal.
const END_GRACE: Duration = Duration::from_secs(1);

/// Runs `feedsvc export`.
pub(crate) fn export(arguments: ExportArguments) -> ExitCode {
    outcome::run(|interrupt| export_to_end(arguments, interrupt))
}

/// Does what the command line says, with what is opened for it closed again.
pub(super) async fn export_to_end(
    arguments: ExportArguments,
    interrupt: Interrupt,
) -> Result<(), (TransferError, Told)> {
    let connection = Connection::open(&arguments.feed)
        .await
        .map_err(|error| (error, Told::NotYet))?;
    let outcome = export_table(&arguments, &connection, &interrupt).await;
    let closed = connection.close().await.map_err(|error| (error, Told::NotYet));
    outcome.and(closed)
}

async fn export_table(
    arguments: &ExportArguments,
    connection: &Connection,
    interrupt: &Interrupt,
) -> Result<(), (TransferError, Told)> {
    let begun = begin(arguments, connection, interrupt).await;
    let (mut export, writer) = begun.map_err(|error| (error, Told::NotYet))?;
    let outcome = export.run(writer).await;
    export.sum_up(outcome)
}

/// Finds out what is to be done, and opens the target.
async fn begin<'a>(
    arguments: &ExportArguments,
    connection: &'a Connection,
    interrupt: &'a Interrupt,
) -> Result<(Export<'a>, Writer), TransferError> {
    let format = match (arguments.format, &arguments.output) {
        (Some(format), _) => format,
        (None, Some(file)) => {
            Format::of_file(file).ok_or_else(|| TransferError::UnknownFormat { file: file.clone() })?
        }
        (None, None) => Format::Csv,
    };
    let tables = connection.get_tables(interrupt).await?;
    let table = find_table(&tables, &arguments.table)?;
    let target_name = match &arguments.output {
        Some(file) => format!("`{}`", file.display()),
        None => "the standard output".to_owned(),
    };
    let not_opened = |source| TransferError::Target {
        target: target_name.clone(),
        source,
    };
    let target = Target::open(arguments.output.as_deref()).map_err(not_opened)?;
    let form = match format {
        Format::Csv => Form::Csv(CsvWriter::new(Arc::clone(&table), arguments.plain)),
        Format::Jsonl => Form::Jsonl,
    };
    let writer = Writer::start(target, form).map_err(TransferError::Runtime)?;
    let counted = CountRequest {
        database: table.name.database.clone(),
        table: table.name.table.clone(),
        ..CountRequest::default()
    };
    // Only for the bar; without it there is none.
    let total = connection
        .client
        .count(counted)
        .await
        .ok()
        .map(|answer| answer.count);
    let data = if arguments.output.is_none() && std::io::stdout().is_terminal() {
        Data::OnTerminal
    } else {
        Data::Elsewhere
    };
    let export = Export {
        connection,
        interrupt,
        progress: Progress::begin(Unit::Records, total, data),
        table,
        target: target_name,
        records: 0,
        revisions: None,
    };
    Ok((export, writer))
}

/// How records are written.
enum Form {
    Csv(CsvWriter),
    Jsonl,
}

/// The thread that writes; it is at most one page behind.
struct Writer {
    pages: mpsc::Sender<Vec<Record>>,
    thread: JoinHandle<Result<Target, Error>>,
}

impl Writer {
    fn start(target: Target, form: Form) -> Result<Writer, Error> {
        let (pages, to_write) = mpsc::channel(1);
        let thread = std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || write(target, &form, to_write))?;
        Ok(Writer { pages, thread })
    }

    /// Waits until everything is written; `Err` with what failed.
    async fn finish(self) -> Result<Target, Error> {
        drop(self.pages);
        let thread = self.thread;
        let joined = tokio::task::spawn_blocking(move || thread.join()).await;
        match joined {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) | Err(_) => Err(Error::other("the thread that writes ended by itself")),
        }
    }
}

fn write(mut target: Target, form: &Form, mut pages: mpsc::Receiver<Vec<Record>>) -> Result<Target, Error> {
    if let Form::Csv(writer) = form {
        writer.begin(&mut target)?;
    }
    while let Some(page) = pages.blocking_recv() {
        for record in page {
            match form {
                Form::Csv(writer) => writer.write(&record.value, &mut target)?,
                Form::Jsonl => jsonl::write_record(&record.value, &mut target)?,
            }
        }
        // Whoever reads a pipe gets what is there.
        target.flush()?;
    }
    Ok(target)
}

/// A running export.
struct Export<'a> {
    connection: &'a Connection,
    interrupt: &'a Interrupt,
    progress: Progress,
    table: Arc<CatalogTable>,
    /// As messages name it.
    target: String,
    records: u64,
    /// Of the first and the last page.
    revisions: Option<(u64, u64)>,
}

impl Export<'_> {
    async fn run(&mut self, writer: Writer) -> Result<(), TransferError> {
        let read = self.read_pages(&writer.pages).await;
        if let Err(error @ TransferError::Interrupted) = read {
            // So that an incomplete file is removed. A write to somebody who does not read may never end.
            let _ = tokio::time::timeout(END_GRACE, writer.finish()).await;
            return Err(error);
        }
        // What failed first is what matters, and the writer's failure ends the reading.
        let target = writer.finish().await.map_err(|error| self.not_written(error))?;
        read?;
        let finished = tokio::task::spawn_blocking(move || target.finish()).await;
        match finished {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.not_written(error)),
            Err(lost) => Err(self.not_written(Error::other(lost))),
        }
    }

    /// Sends every page to the writer; ends early, without an error, when the writer has failed.
    async fn read_pages(&mut self, pages: &mpsc::Sender<Vec<Record>>) -> Result<(), TransferError> {
        let mut cursor = String::new();
        loop {
            let page = self.read_page(cursor).await?;
            let first = self.revisions.map_or(page.revision, |(first, _)| first);
            self.revisions = Some((first, page.revision));
            let record_count = u64::try_from(page.records.len()).unwrap_or(u64::MAX);
            let sent = tokio::select! {
                sent = pages.send(page.records) => sent,
                () = self.interrupt.asked() => return Err(TransferError::Interrupted),
            };
            if sent.is_err() {
                return Ok(());
            }
            self.records += record_count;
            self.progress.show(self.records, self.records);
            if page.next_cursor.is_empty() {
                return Ok(());
            }
            cursor = page.next_cursor;
        }
    }

    /// Reads one page; the one place that knows how a table is paged.
    async fn read_page(&self, cursor: String) -> Result<SearchResponse, TransferError> {
        if self.interrupt.is_asked() {
            return Err(TransferError::Interrupted);
        }
        let request = SearchRequest {
            database: self.table.name.database.clone(),
            table: self.table.name.table.clone(),
            limit: PAGE_RECORDS,
            cursor,
            ..SearchRequest::default()
        };
        let call = || self.connection.client.search(request.clone());
        let page = self
            .connection
            .persist(self.interrupt, &self.progress, call)
            .await;
        page.map_err(|failure| {
            let problem = match failure {
                CallFailure::Interrupted => return TransferError::Interrupted,
                CallFailure::Away(problem) => format!("is away: {problem}"),
                CallFailure::Refused { message, .. } => format!("refuses it: {message}"),
                CallFailure::Failed(problem) => format!("failed: {problem}"),
            };
            TransferError::Page {
                table: self.table.name.to_string(),
                name: self.connection.name().to_owned(),
                problem,
            }
        })
    }

    fn not_written(&self, source: Error) -> TransferError {
        if source.kind() == ErrorKind::BrokenPipe {
            return TransferError::BrokenPipe;
        }
        TransferError::Target {
            target: self.target.clone(),
            source,
        }
    }

    /// Tells the error, if there is one, and then the summary.
    fn sum_up(self, outcome: Result<(), TransferError>) -> Result<(), (TransferError, Told)> {
        self.progress.clear();
        let revisions = match self.revisions {
            None => "no revision read".to_owned(),
            Some((first, last)) if first == last => format!("revision {first}"),
            Some((first, last)) => format!("revisions {first} to {last}"),
        };
        let (table, records) = (&self.table.name, self.records);
        match outcome {
            Ok(()) => {
                let summary = format!(
                    "exported {records} rows of {table} ({revisions}) to {}",
                    self.target
                );
                self.progress.finish(&summary, records, "");
                Ok(())
            }
            Err(error @ TransferError::BrokenPipe) => Err((error, Told::Already)),
            Err(error) => {
                error.tell();
                let summary = format!("export of {table} stopped after {records} rows ({revisions})");
                self.progress.finish(&summary, records, "; it is not complete");
                Err((error, Told::Already))
            }
        }
    }
}
