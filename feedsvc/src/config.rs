//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::transfer::{ExportArguments, ImportArguments};

/// Tables, their audit log and durable sessions, behind gRPC.
#[derive(Debug, Parser)]
#[command(name = "feedsvc", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serves the feed of a data directory until it is told to end.
    Serve(ServeArguments),
    /// Copies the store of a running service into a new file on its machine, while it goes on.
    Backup(BackupArguments),
    /// Makes a data directory of a backup. Every older cursor is told of a gap then, and sessions are not restored.
    Restore(RestoreArguments),
    /// Checks a store that is not running: the logs and their chains, every record against the log, the database itself.
    Verify(VerifyArguments),
    Import(ImportArguments),
    Export(ExportArguments),
}

/// Which service writes a backup, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArguments {
    /// The address of the running service.
    #[arg(long, env = "FEEDSVC_FEED", default_value = "http://127.0.0.1:9928")]
    pub(crate) feed: String,

    /// The new file, on the service's machine.
    pub(crate) path: PathBuf,
}

/// What is restored where.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArguments {
    /// The backup.
    pub(crate) backup: PathBuf,

    /// The directory of the store that is made; it must be empty or absent.
    #[arg(long, env = "FEEDSVC_DATA")]
    pub(crate) data: PathBuf,
}

/// What is checked.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct VerifyArguments {
    /// The directory of a store that no process has open.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,

    /// A backup.
    #[arg(long)]
    pub(crate) backup: Option<PathBuf>,
}

/// How the feed is served.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArguments {
    /// The address to listen on; port 0 takes a free one. Only loopback, since there is no authentication yet.
    #[arg(long, env = "FEEDSVC_LISTEN", default_value = "127.0.0.1:9928")]
    pub(crate) listen: SocketAddr,

    /// The directory of the store; it is made if it is missing.
    #[arg(long, env = "FEEDSVC_DATA", default_value = "data")]
    pub(crate) data: PathBuf,

    /// A .graphql file or a directory of them. May be left out when the store has tables from an earlier run.
    #[arg(long, env = "FEEDSVC_SCHEMA")]
    pub(crate) schema: Option<PathBuf>,

    /// How long a session may be idle if its creator says nothing else, for example 30m.
    #[arg(long, env = "FEEDSVC_IDLE_TIMEOUT", default_value = "30m", value_parser = parse_duration)]
    pub(crate) idle_timeout: Duration,

    /// For how long after the start no session expires.
    #[arg(long, env = "FEEDSVC_EXPIRY_GRACE", default_value = "5m", value_parser = parse_duration)]
    pub(crate) expiry_grace: Duration,

    /// How often idle sessions are looked for.
    #[arg(long, env = "FEEDSVC_EXPIRY_INTERVAL", default_value = "30s", value_parser = parse_duration)]
    pub(crate) expiry_interval: Duration,

    /// How much memory the newest entries of the log may take, in bytes.
    #[arg(long, env = "FEEDSVC_RING_BYTES", default_value_t = 64 * 1024 * 1024)]
    pub(crate) ring_bytes: usize,

    /// How long an entry of the log is kept, for example 168h.
    #[arg(long, env = "FEEDSVC_LOG_AGE", default_value = "168h", value_parser = parse_duration)]
    pub(crate) log_age: Duration,

    /// How much the log may take before its oldest entries go earlier, in bytes. The newest 10 minutes always stay.
    #[arg(long, env = "FEEDSVC_LOG_BYTES", default_value_t = 1024 * 1024 * 1024)]
    pub(crate) log_bytes: u64,

    /// How long an entry is kept whatever else says. Less than 10 minutes is for tests: streams that broke rely on it.
    #[arg(long, hide = true, default_value = "10m", value_parser = parse_duration)]
    pub(crate) log_floor: Duration,

    /// How large a record may be, in bytes.
    #[arg(long, env = "FEEDSVC_RECORD_BYTES", default_value_t = 1024 * 1024)]
    pub(crate) record_bytes: usize,
}

/// Parses a whole number with a unit: ms, s, m or h.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a whole number with a unit, as in 500ms, 30s, 5m or 1h".to_owned()),
    };
    let duration_ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_ms));
    match duration_ms {
        Some(0) => Err("expected more than nothing".to_owned()),
        Some(duration_ms) => Ok(Duration::from_millis(duration_ms)),
        None => Err("expected a whole number with a unit, as in 500ms, 30s, 5m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::{Cli, parse_duration};

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, expected_ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(expected_ms)),
                "{text}"
            );
        }
        for text in [
            "",
            "5",
            "s",
            "0s",
            "-1s",
            "1.5s",
            "5 m",
            "99999999999999999999h",
            "18446744073709551615h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
