//! Logs: one line an event on the standard error, with fields.
//!
//! Fields in use: `session.id`, `request.id`, `trace.id` (of the request, on every line about it), `version`, `revision`, `reason`, `blocks`, `error`, `peer`, `uri`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging; levels by module come from `RUST_LOG` (default: warnings, and what a gateway tells at `info`).
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    // A second start in one process (tests do that) keeps the first one's settings.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
