//! The command line, and what the gateway takes from it.

use std::net::SocketAddr;
use std::path::PathBuf;

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

/// Options of `serve`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServeOptions {
    /// The feed service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9928", value_parser = feed_address)]
    pub(crate) feed: http::Uri,
    #[command(flatten)]
    pub(crate) listen: Listen,
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
