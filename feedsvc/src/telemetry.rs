//! The log of the process: to stderr, filtered by `RUST_LOG`.
//!
//! Field names: `error`, `listen`, `data`, `tables`, `sessions`, `signal`.

use tracing_subscriber::EnvFilter;

/// Sends the log of this process to stderr; does nothing where a log is set up already.
pub(crate) fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    // Failing means that there is a subscriber, which is what is wanted.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init();
}
