//! The command line, and what the gateway takes from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Gateway for MCP subscriptions that do not get lost.
#[derive(Debug, Parser)]
#[command(
    name = "gateway",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the process is to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve MCP clients from a feed service.
    Serve(ServeOptions),
    /// Run gateway and feed service in one process, with sample tables, to try things out.
    Dev(DevOptions),
}

/// The addresses that clients and operators use.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Listen {
    /// Where MCP and REST are served. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9926")]
    pub(crate) application: SocketAddr,
    /// Where health is served. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9927")]
    pub(crate) admin: SocketAddr,
}

/// How the process ends.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Drain {
    /// Over how long the ends of open streams are spread at most (`drain.window`).
    #[arg(long = "drain-window", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) window: Duration,
    /// After how long the process ends whatever is still under way (`drain.deadline`).
    #[arg(long = "drain-deadline", value_name = "DURATION", default_value = "25s", value_parser = duration)]
    pub(crate) deadline: Duration,
}

/// What sessions and streams may do.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SessionOptions {
    /// After how long without a request or a stream a session ends (`session.idle_timeout`).
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    pub(crate) idle_timeout: Duration,
    /// Whether clients may end their sessions by DELETE (`session.allow_client_delete`).
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) allow_client_delete: bool,
    /// For how long a client may take nothing of what is written to it (`stream.write_timeout`).
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) write_timeout: Duration,
    /// How many notices may wait singly in one stream; beyond it they are folded (`stream.pending`).
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    pub(crate) pending: usize,
}

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// The feed service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9928", value_parser = feed_address)]
    pub(crate) feed: http::Uri,
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Where other gateways reach this one. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) peer: SocketAddr,
    #[command(flatten)]
    pub(crate) sessions: SessionOptions,
    #[command(flatten)]
    pub(crate) drain: Drain,
}

/// Options of `dev`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DevOptions {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Where the feed service listens. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9928")]
    pub(crate) feed: SocketAddr,
    /// The folder of the data; it is made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub(crate) data: PathBuf,
    /// A schema in GraphQL SDL, a file or a folder, in place of the sample tables.
    #[arg(long, value_name = "PATH")]
    pub(crate) schema: Option<PathBuf>,
    /// Change a price of the sample tables every second.
    #[arg(long, conflicts_with = "schema")]
    pub(crate) demo_writes: bool,
}

/// Reads a whole number with a unit, as in 500ms, 30s, 5m or 1h.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let unit_ms = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    unit_ms
        .zip(number.parse::<u64>().ok())
        .and_then(|(unit_ms, number)| number.checked_mul(unit_ms))
        .map(Duration::from_millis)
        .ok_or_else(|| "expected a whole number with a unit, as in 500ms, 30s, 5m or 1h".to_owned())
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            idle_timeout: Duration::from_secs(30 * 60),
            allow_client_delete: true,
            write_timeout: Duration::from_secs(30),
            pending: 10_000,
        }
    }
}

fn feed_address(text: &str) -> Result<http::Uri, String> {
    let example = "write it as http://127.0.0.1:9928";
    let uri: http::Uri = text.parse().map_err(|error| format!("{error}; {example}"))?;
    match (uri.scheme_str(), uri.authority()) {
        (_, Some(authority)) if authority.as_str().contains('@') => {
            Err(format!("a user name or password is not taken here; {example}"))
        }
        (Some("http"), Some(_)) => Ok(uri),
        (Some("https"), _) => Err(format!("TLS to the feed service is not served yet; {example}")),
        _ => Err(format!("not an http URL; {example}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_duration_has_a_unit() {
        for (text, expected_ms) in [
            ("0ms", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(expected_ms)), "{text}");
        }
        for wrong in ["", "30", "s", "-1s", "1.5s", "1d", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_feed_service_is_named_by_a_url() {
        assert!(feed_address("http://127.0.0.1:9928").is_ok());
        for wrong in [
            "127.0.0.1:9928",
            "https://feed:1",
            "feed",
            "",
            "http://",
            "http://user:secret@127.0.0.1:1",
        ] {
            assert!(feed_address(wrong).is_err(), "{wrong:?}");
        }
    }
}
