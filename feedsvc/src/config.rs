//! The command line, and the keys by which the service is configured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use settings::{Arguments, Completions, Keys, Manual, Settings, gibibytes, kibibytes, mebibytes};

use crate::access::AccessMode;
use crate::service::Limits;
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
    Serve(Arguments<ServeSettings>),
    /// Copies the store of a running service into a new file on its machine, while it goes on.
    Backup(BackupArguments),
    /// Makes a data directory of a backup. Every older cursor is told of a gap then, and sessions are not restored.
    Restore(RestoreArguments),
    /// Checks a store that is not running: the logs and their chains, every record against the log, the database itself.
    Verify(VerifyArguments),
    Import(ImportArguments),
    Export(ExportArguments),
    /// Prints a script that completes this command line in a shell.
    Completions(Completions),
    /// Prints or writes the man pages.
    Man(Manual),
}

/// Which service writes a backup, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArguments {
    /// The address of the running service.
    #[arg(long, default_value = "http://127.0.0.1:9928")]
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
    #[arg(long)]
    pub(crate) data: PathBuf,

    /// Restore a backup although the check of its contents finds damage. Nothing can find it afterwards.
    #[arg(long)]
    pub(crate) accept_damage: bool,
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

/// How a feed is served.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The directory of the store.
    pub data: PathBuf,
    /// The schema, if one is named.
    pub schema: Option<PathBuf>,
    /// Who may do what.
    pub access: AccessMode,
    /// The bounds.
    pub limits: Limits,
}

/// Nothing is waited for longer than this; more is meant as "never", and should be said otherwise.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Settings for ServeSettings {
    fn declare(keys: &mut Keys) -> ServeSettings {
        let settings = ServeSettings {
            listen: keys
                .key("listen", "The address to listen on. Only a loopback one, since there is no authentication yet.")
                .flag("listen", "ADDRESS")
                .address(SocketAddr::from(([127, 0, 0, 1], 9928))),
            data: keys
                .key("data", "The directory of the store. It is made if it is missing.")
                .flag("data", "DIR")
                .path("data"),
            schema: keys
                .key(
                    "schema",
                    "The tables: a `.graphql` file or a directory of them. It may be left out when the store has tables from an \
                     earlier run.",
                )
                .flag("schema", "PATH")
                .example("schema.graphql")
                .optional_path(),
            access: keys
                .key(
                    "access.mode",
                    "`open`: every caller may do everything. `roles`: a caller may do what its role says, a record of `system.role`.",
                )
                .flag("access-mode", "MODE")
                .choice(("open", AccessMode::Open), &[("roles", AccessMode::Roles)]),
            limits: limits(keys),
        };
        keys.check(
            "listen",
            settings.listen.ip().is_loopback(),
            "there is no authentication yet, so only a loopback address is served; allowed: 127.0.0.1 or [::1] with a port",
        );
        keys.check(
            "record.bytes",
            settings.limits.record_bytes <= settings.limits.commit_bytes,
            "a record must fit into a commit; allowed: at most what commit.bytes says",
        );
        settings
    }
}

/// Declares one key for each bound. The literal names every field, so a bound without a key does not compile.
fn limits(keys: &mut Keys) -> Limits {
    let default = Limits::default();
    Limits {
        ring_bytes: keys
            .key(
                "ring.bytes",
                "How much memory the newest entries of the log may take. A gateway that is not further behind is served from there.",
            )
            .flag("ring-bytes", "SIZE")
            .bytes(default.ring_bytes, kibibytes(1)..=gibibytes(64)),
        record_bytes: keys
            .key("record.bytes", "How large a record may be, as it is sent.")
            .flag("record-bytes", "SIZE")
            .bytes(default.record_bytes, kibibytes(1)..=mebibytes(64)),
        commit_bytes: keys
            .key(
                "commit.bytes",
                "How large the records of one commit may be together. A message over four times as much is not read at all.",
            )
            .bytes(default.commit_bytes, kibibytes(1)..=mebibytes(256)),
        concurrent_reads: keys
            .key(
                "store.concurrent_reads",
                "How many reads of the store run at a time. Each takes a thread and a connection to the database; more than there \
                 are processors wait for each other.",
            )
            .count(default.concurrent_reads, 1..=256),
        concurrent_searches: keys
            .key(
                "store.concurrent_searches",
                "How many of the reads that run at a time (`store.concurrent_reads`) may be searches, which take long; reads of single records \
                 find a place beside them.",
            )
            .count(default.concurrent_searches, 1..=256),
        session_idle_timeout: keys
            .key(
                "session.idle_timeout",
                "How long a session may be idle if its creator says nothing else. A gateway does: see its own key of this name.",
            )
            .flag("idle-timeout", "DURATION")
            .duration(default.session_idle_timeout, Duration::from_millis(100)..=YEAR),
        expiry_grace: keys
            .key(
                "session.expiry_grace",
                "For how long after the start no session expires, so that clients and gateways can come back.",
            )
            .flag("expiry-grace", "DURATION")
            .duration(default.expiry_grace, Duration::from_millis(1)..=YEAR),
        expiry_interval: keys
            .key("session.expiry_interval", "How often idle sessions are looked for.")
            .flag("expiry-interval", "DURATION")
            .duration(default.expiry_interval, Duration::from_millis(1)..=YEAR),
        sessions_per_principal: keys
            .key("session.per_principal", "How many sessions a named principal may have.")
            .flag("sessions-per-principal", "COUNT")
            .count(default.sessions_per_principal, 1..=1_000_000_000),
        sessions_in_all: keys
            .key("session.max", "How many sessions there may be in all.")
            .flag("sessions-max", "COUNT")
            .count(default.sessions_in_all, 1..=1_000_000_000),
        access_log_age_max: keys
            .key("access_log.age", "How long an entry of the access log is kept.")
            .duration(default.access_log_age_max, Duration::from_millis(1)..=100 * YEAR),
        access_log_bytes_max: keys
            .key(
                "access_log.bytes",
                "How much the access log may take, about, before its oldest entries go earlier.",
            )
            .bytes(usize::try_from(default.access_log_bytes_max).unwrap_or(usize::MAX), 1..=gibibytes(1 << 20)) as u64,
        search_scan_max: keys
            .key(
                "search.scan_max",
                "How many records a search or a count may look at. One that would look at more is refused, and told what to index.",
            )
            .count(default.search_scan_max, 1..=1_000_000_000),
        log_age: keys
            .key(
                "log.age",
                "How long an entry of the log is kept. A client that was away for longer is told of a gap.",
            )
            .flag("log-age", "DURATION")
            .duration(default.log_age, Duration::from_millis(1)..=100 * YEAR),
        log_bytes: keys
            .key(
                "log.bytes",
                "How much the log may take, about, before its oldest entries go earlier.",
            )
            .flag("log-bytes", "SIZE")
            .bytes(usize::try_from(default.log_bytes).unwrap_or(usize::MAX), 1..=gibibytes(1 << 20)) as u64,
        log_floor: keys
            .key(
                "log.floor",
                "How long an entry is kept whatever else says. Less than ten minutes is for tests: streams that broke rely on it.",
            )
            .flag("log-floor", "DURATION")
            .duration(default.log_floor, Duration::from_millis(1)..=YEAR),
        retention_interval: keys
            .key("log.retention_interval", "How often it is looked for what has outlived its time.")
            .duration(default.retention_interval, Duration::from_millis(10)..=YEAR),
        bookmark_interval: keys
            .key(
                "watch.bookmark_interval",
                "How long a watch of some tables is silent at most while entries of others move the head on.",
            )
            .duration(default.bookmark_interval, Duration::from_millis(10)..=YEAR),
        sealing_key_age: keys
            .key(
                "sealing.key_age",
                "How long a key seals what gateways give out, for example cursors, before a new one is made.",
            )
            .duration(default.sealing_key_age, Duration::from_secs(1)..=YEAR),
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
    fn every_default_is_that_of_the_bounds() {
        let defaults = settings::declarations::<ServeSettings>();
        let find = |key: &str| {
            let declaration = defaults.iter().find(|declaration| declaration.key == key);
            declaration.unwrap().default.clone().unwrap()
        };
        assert_eq!(find("ring.bytes"), "\"64 MiB\"");
        assert_eq!(find("session.idle_timeout"), "\"30m\"");
        assert_eq!(find("session.expiry_grace"), "\"5m\"");
    }
}
