//! How a command ends: its errors, and the exit codes.
//!
//! 0: everything was done; 1: it failed or was stopped; 2: the command line is wrong; 128 + n: signal n ended it.

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use super::interrupt::Interrupt;
use super::progress::write_line;
use super::row::ReadError;
use super::table::TableFault;
use crate::api::client::AddressFault;
use crate::service::{OpenError, ServeError};

/// Why a command could not do what it was started for; the text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error("cannot start the runtime: {0}; raise the limit of processes")]
    Runtime(#[source] std::io::Error),
    #[error("cannot tell the format of `{}`: its name ends with neither .csv nor .jsonl; say --format csv or --format jsonl", file.display())]
    UnknownFormat { file: PathBuf },
    #[error(transparent)]
    Address(#[from] AddressFault),
    #[error("cannot use data directory `{}`: it is not there; check the path, or name tables for a new store with --schema", data.display())]
    NoStore { data: PathBuf },
    #[error("cannot use data directory `{}`: a service has it open; leave --data out and use --feed with that service's address", data.display())]
    InUse { data: PathBuf },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Close(#[from] ServeError),
    #[error(
        "cannot read the tables of {name}: {problem}; start it, name another with --feed, or use --data while none runs"
    )]
    Unreachable { name: String, problem: String },
    #[error(transparent)]
    Table(#[from] TableFault),
    #[error("cannot read `{file}`: {source}; check the path and its permissions")]
    NoFile { file: String, source: std::io::Error },
    #[error("cannot import `{file}`: {source}")]
    Read { file: String, source: ReadError },
    #[error("cannot import `{file}`: the thread that reads it ended by itself; run it again")]
    ReaderLost { file: String },
    /// `fault` begins with the line.
    #[error("{file}:{fault}; correct it, or leave such rows out with --skip-bad")]
    BadRow { file: String, fault: String },
    #[error("{file}:{fault}; get the right from an administrator")]
    Denied { file: String, fault: String },
    #[error(
        "cannot write lines {first} to {last} of `{file}`: {name} is away: {problem}; whether these rows are in is not known"
    )]
    AwayWhileWriting {
        file: String,
        first: u64,
        last: u64,
        name: String,
        problem: String,
    },
    #[error("cannot write lines {first} to {last} of `{file}`: {problem}")]
    Refused {
        file: String,
        first: u64,
        last: u64,
        problem: String,
    },
    #[error("cannot read the records of {table}: {name} {problem}; run it again")]
    Page {
        table: String,
        name: String,
        problem: String,
    },
    #[error("cannot write to {target}: {source}; check the disk and the permissions")]
    Target { target: String, source: std::io::Error },
    /// Whoever read the output has gone; nothing is said about it.
    #[error("the output was closed")]
    BrokenPipe,
    /// A signal asked for the end.
    #[error("ended by a signal")]
    Interrupted,
}

impl TransferError {
    /// Whether the command line is wrong, so that it would fail again whatever the services do.
    fn is_usage(&self) -> bool {
        matches!(
            self,
            TransferError::UnknownFormat { .. } | TransferError::Address(_)
        )
    }

    /// Says it on stderr, where there is something to say.
    pub(super) fn tell(&self) {
        match self {
            TransferError::BrokenPipe | TransferError::Interrupted => {}
            error => {
                write_line(&format!("feedsvc: {error}"));
            }
        }
    }
}

/// Runs a command to its end. An error must have been told already where the command had something to sum up; `tell` says so.
pub(super) fn run<Command, Ending>(command: Command) -> ExitCode
where
    Command: FnOnce(Interrupt) -> Ending,
    Ending: Future<Output = Result<(), (TransferError, Told)>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = match runtime {
        Err(error) => Err((TransferError::Runtime(error), Told::NotYet)),
        Ok(runtime) => {
            let outcome = runtime.block_on(run_until_end(command));
            // A thread may stand in a write to somebody who does not read; the process ends all the same.
            runtime.shutdown_background();
            outcome
        }
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err((error, told)) => {
            if told == Told::NotYet {
                error.tell();
            }
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

async fn run_until_end<Command, Ending>(command: Command) -> Result<u8, (TransferError, Told)>
where
    Command: FnOnce(Interrupt) -> Ending,
    Ending: Future<Output = Result<(), (TransferError, Told)>>,
{
    let interrupt = Interrupt::by_signals().map_err(|error| (TransferError::Runtime(error), Told::NotYet))?;
    match command(interrupt.clone()).await {
        Ok(()) => Ok(0),
        Err((TransferError::Interrupted, _)) => Ok(interrupt.exit_code()),
        Err(error) => Err(error),
    }
}

/// Whether an error stands on stderr already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    NotYet,
    Already,
}
