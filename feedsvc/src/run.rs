//! The process: command line, listener, signals, exit code.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::api::operator::{self, OperatorError};
use crate::catalog::SchemaSource;
use crate::clock::{Clock, SystemClock};
use crate::config::{BackupArguments, Cli, Command, RestoreArguments, ServeArguments, VerifyArguments};
use crate::service::{Limits, OpenError, Options, ServeError, Service};
use crate::store::{RestoreError, VerifyError, sqlite};
use crate::telemetry;
use crate::transfer;

/// Why the process cannot do what it was started for; the text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot start the runtime: {0}; raise the limit of processes")]
    Runtime(#[source] std::io::Error),
    #[error("cannot listen on {listen}: there is no authentication yet, so only loopback is served; use --listen 127.0.0.1:{}", listen.port())]
    NotLoopback { listen: SocketAddr },
    #[error(
        "cannot listen on {listen}: {source}; end the process that has the port, or use another with --listen"
    )]
    Listen {
        listen: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot handle signals: {0}; check the limits of this environment")]
    Signals(#[source] std::io::Error),
    #[error("cannot write to the standard output: {0}; connect it to something that reads")]
    Output(#[source] std::io::Error),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("cannot find out where `{}` is: {source}; write an absolute path", path.display())]
    Path { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Operator(#[from] OperatorError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error("the store is damaged: {findings} findings; restore it from a backup")]
    Damaged { findings: usize },
}

/// Runs the program with the arguments of this process: exit code 0 after a planned end, 1 after an error, which
/// stands on stderr, 2 for a wrong command line.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors of this kind too, and go to stdout with exit code 0.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(2)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    telemetry::init();
    let outcome = match cli.command {
        Command::Serve(arguments) => serve(arguments),
        Command::Backup(arguments) => back_up(arguments),
        Command::Restore(arguments) => restore(&arguments),
        Command::Verify(arguments) => verify(&arguments),
        Command::Import(arguments) => return transfer::import(arguments),
        Command::Export(arguments) => return transfer::export(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "feedsvc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: ServeArguments) -> Result<(), RunError> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(RunError::Runtime)?;
    runtime.block_on(serve_until_signal(arguments))
}

async fn serve_until_signal(arguments: ServeArguments) -> Result<(), RunError> {
    let listen = arguments.listen;
    if !listen.ip().is_loopback() {
        return Err(RunError::NotLoopback { listen });
    }
    // Handlers first: a signal during the start ends the process properly as well.
    let shutdown = cancelled_by_signals().map_err(RunError::Signals)?;
    let in_use = |source| RunError::Listen { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(in_use)?;
    let address = listener.local_addr().map_err(in_use)?;

    let data = arguments.data;
    let service = Service::open(Options {
        data: data.clone(),
        schema: arguments.schema.map_or(SchemaSource::Stored, SchemaSource::Path),
        limits: Limits {
            ring_bytes: arguments.ring_bytes,
            record_bytes: arguments.record_bytes,
            session_idle_timeout: arguments.idle_timeout,
            expiry_grace: arguments.expiry_grace,
            expiry_interval: arguments.expiry_interval,
            log_age: arguments.log_age,
            log_bytes: arguments.log_bytes,
            log_floor: arguments.log_floor,
            ..Limits::default()
        },
    })
    .await?;
    info!("open mode: no authentication, every caller on this machine is super_user");

    let mut stdout = std::io::stdout();
    writeln!(stdout, "feedsvc ready listen={address} data={}", data.display()).map_err(RunError::Output)?;
    stdout.flush().map_err(RunError::Output)?;
    service.serve(listener, shutdown).await?;
    info!("ended");
    Ok(())
}

fn back_up(arguments: BackupArguments) -> Result<(), RunError> {
    let path = std::path::absolute(&arguments.path).map_err(|source| RunError::Path {
        path: arguments.path.clone(),
        source,
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(RunError::Runtime)?;
    let answer = runtime.block_on(operator::back_up(&arguments.feed, &path))?;
    print(format_args!(
        "feedsvc backup file={} head={} bytes={}",
        path.display(),
        answer.head,
        answer.bytes
    ))
}

fn restore(arguments: &RestoreArguments) -> Result<(), RunError> {
    let now_ms = SystemClock::new().now_ms();
    let restored = sqlite::restore(&arguments.backup, &arguments.data, now_ms)?;
    print(format_args!(
        "feedsvc restored data={} head={} backup-head={} sessions-dropped={}",
        arguments.data.display(),
        restored.head,
        restored.backup_head,
        restored.sessions_dropped
    ))
}

fn verify(arguments: &VerifyArguments) -> Result<(), RunError> {
    let verification = match (&arguments.data, &arguments.backup) {
        (Some(data), _) => sqlite::verify_directory(data)?,
        (None, Some(backup)) => sqlite::verify_file(backup)?,
        // The command line asks for one of the two.
        (None, None) => return Ok(()),
    };
    for finding in &verification.findings {
        print(format_args!("{}: {}", finding.place, finding.problem))?;
    }
    print(format_args!(
        "feedsvc verified head={} entries={} records={} access-entries={} findings={}",
        verification.head,
        verification.entries,
        verification.records,
        verification.access_entries,
        verification.findings.len()
    ))?;
    match verification.findings.len() {
        0 => Ok(()),
        findings => Err(RunError::Damaged { findings }),
    }
}

/// Writes a line to the standard output.
fn print(line: std::fmt::Arguments<'_>) -> Result<(), RunError> {
    writeln!(std::io::stdout(), "{line}").map_err(RunError::Output)
}

/// Returns a token that SIGTERM or SIGINT cancels.
fn cancelled_by_signals() -> Result<CancellationToken, std::io::Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    // Lives as long as the process: it is what ends it.
    tokio::spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "ending");
        cancelled.cancel();
    });
    Ok(token)
}

/// Each connection and each file of the store takes a descriptor, and the usual soft limit of 1,024 is low.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!(error = %error, "the limit of open files stays low");
    }
}
