//! The process: command line, listener, signals, exit code.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use settings::{Arguments, Start};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::access::AccessMode;
use crate::api::client::{self, OperatorError};
use crate::catalog::SchemaSource;
use crate::clock::{Clock, SystemClock};
use crate::config::{BackupArguments, Cli, Command, RestoreArguments, ServeSettings, VerifyArguments};
use crate::service::{OpenError, Options, ServeError, Service};
use crate::store::{RestoreError, VerifyError, sqlite};
use crate::telemetry;
use crate::transfer;

/// Why the process cannot do what it was started for; the text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("cannot start the runtime: {0}; raise the limit of processes")]
    Runtime(#[source] std::io::Error),
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
    Manual(std::io::Error),
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
/// stands on stderr, 2 for a wrong command line or configuration.
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
    let mut stdout = std::io::stdout();
    if !matches!(cli.command, Command::Serve(_)) {
        // `serve` begins to log when it has read its configuration.
        telemetry::init();
    }
    let outcome = match cli.command {
        Command::Serve(arguments) => return serve(arguments),
        Command::Backup(arguments) => back_up(arguments),
        Command::Restore(arguments) => restore(&arguments),
        Command::Verify(arguments) => verify(&arguments),
        Command::Import(arguments) => return transfer::import(arguments),
        Command::Export(arguments) => return transfer::export(arguments),
        Command::Completions(completions) => completions
            .write(Cli::command(), &mut stdout)
            .map_err(RunError::Manual),
        Command::Man(manual) => manual
            .write(Cli::command(), &mut stdout)
            .map_err(RunError::Manual),
    };
    end(outcome)
}

/// Reads the configuration, and serves by it or prints it.
fn serve(arguments: Arguments<ServeSettings>) -> ExitCode {
    let outcome = match arguments.read() {
        Ok(Start::Run(settings)) => {
            telemetry::init();
            serve_with(settings)
        }
        Ok(Start::Print(text)) => print_text(&text).map_err(RunError::Output),
        Err(mistakes) => {
            let _ = writeln!(std::io::stderr(), "feedsvc: {mistakes}");
            return ExitCode::from(2);
        }
    };
    end(outcome)
}

/// Writes a text to the standard output.
fn print_text(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Tells an error, and returns the exit code.
fn end(outcome: Result<(), RunError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "feedsvc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_with(settings: ServeSettings) -> Result<(), RunError> {
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(RunError::Runtime)?;
    runtime.block_on(serve_until_signal(settings))
}

async fn serve_until_signal(settings: ServeSettings) -> Result<(), RunError> {
    let listen = settings.listen;
    // Handlers first: a signal during the start ends the process properly as well.
    let shutdown = cancelled_by_signals().map_err(RunError::Signals)?;
    let in_use = |source| RunError::Listen { listen, source };
    let listener = TcpListener::bind(listen).await.map_err(in_use)?;
    let address = listener.local_addr().map_err(in_use)?;

    let data = settings.data;
    let access = settings.access;
    let service = Service::open(Options {
        data: data.clone(),
        schema: settings.schema.map_or(SchemaSource::Stored, SchemaSource::Path),
        access,
        limits: settings.limits,
    })
    .await?;
    match access {
        AccessMode::Open => info!("open mode: no authentication, every caller on this machine is super_user"),
        AccessMode::Roles => {
            info!("roles mode: a caller may do what its role says; it vouches for its principal itself")
        }
    }

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
    let answer = runtime.block_on(client::back_up(&arguments.feed, &path))?;
    print(format_args!(
        "feedsvc backup file={} head={} bytes={}",
        path.display(),
        answer.head,
        answer.bytes
    ))
}

fn restore(arguments: &RestoreArguments) -> Result<(), RunError> {
    let now_ms = SystemClock::new().now_ms();
    let damage = if arguments.accept_damage {
        sqlite::Damage::Accepted
    } else {
        sqlite::Damage::Refused
    };
    let restored = sqlite::restore(&arguments.backup, &arguments.data, damage, now_ms)?;
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
