//! The command line, and the keys by which the service is configured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use settings::{Arguments, Completions, Keys, Manual, Settings, gibibytes, kibibytes, mebibytes};

use crate::service::Limits;

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
    /// Prints a script that completes this command line in a shell.
    Completions(Completions),
    /// Prints or writes the man pages.
    Man(Manual),
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
