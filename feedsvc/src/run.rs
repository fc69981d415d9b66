//! The process: command line, listener, signals, exit code.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use settings::{Arguments, Start};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::catalog::SchemaSource;
use crate::config::{Cli, Command, ServeSettings};
use crate::service::{OpenError, Options, ServeError, Service};
use crate::telemetry;

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
    let outcome = match cli.command {
        Command::Serve(arguments) => return serve(arguments),
        Command::Completions(completions) => completions.write(Cli::command(), &mut stdout),
        Command::Man(manual) => manual.write(Cli::command(), &mut stdout),
    };
    end(outcome.map_err(RunError::Manual))
}

/// Reads the configuration, and serves by it or prints it.
fn serve(arguments: Arguments<ServeSettings>) -> ExitCode {
    let outcome = match arguments.read() {
        Ok(Start::Run(settings)) => {
            telemetry::init();
            serve_with(settings)
        }
        Ok(Start::Print(text)) => print(&text).map_err(RunError::Output),
        Err(mistakes) => {
            let _ = writeln!(std::io::stderr(), "feedsvc: {mistakes}");
            return ExitCode::from(2);
        }
    };
    end(outcome)
}

fn print(text: &str) -> std::io::Result<()> {
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
    let service = Service::open(Options {
        data: data.clone(),
        schema: settings.schema.map_or(SchemaSource::Stored, SchemaSource::Path),
        limits: settings.limits,
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
