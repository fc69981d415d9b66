//! The servers: how each is started, entered and fed.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;

use super::process::ServerProcess;
use super::publish::Publisher;
use crate::load::open::Door;
use crate::measure::machine::Cores;

/// A kind of server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// The gateway, with a feed service behind it.
    Gateway,
    /// The plain SSE broadcast server.
    Floor,
    /// The same without axum's `Sse`: the shared bytes themselves.
    FloorBytes,
    /// The server built with rmcp.
    Rmcp,
}

impl Server {
    /// Every server, in the order of a report's columns.
    pub const ALL: [Server; 4] = [Server::Gateway, Server::Floor, Server::FloorBytes, Server::Rmcp];
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Server::Gateway => "gateway",
            Server::Floor => "floor",
            Server::FloorBytes => "floor-bytes",
            Server::Rmcp => "rmcp",
        })
    }
}

/// Where the servers' programs are, and where they may write.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The program `gateway`.
    pub gateway: PathBuf,
    /// The program `feedsvc`.
    pub feedsvc: PathBuf,
    /// The program `bench-floor`.
    pub floor: PathBuf,
    /// The program `bench-rmcp`.
    pub rmcp: PathBuf,
    /// For logs and the feed service's data.
    pub folder: PathBuf,
    /// Nothing is pinned without.
    pub cores: Option<Cores>,
}

/// A started server, and how to use it.
pub(super) struct Started {
    pub(super) process: ServerProcess,
    pub(super) behind: Option<ServerProcess>,
    pub(super) address: SocketAddr,
    pub(super) door: Door,
    pub(super) publisher: Publisher,
}

pub(crate) const SCHEMA: &str = r#"type Product @table(database: "data") @export {
  id: ID @primaryKey
  name: String
  price: Float
  stock: Int
}
"#;

impl Server {
    pub(super) fn start(self, programs: &Programs) -> anyhow::Result<Started> {
        match self {
            Server::Gateway => start_gateway(programs),
            Server::Floor => start_alone("floor", &programs.floor, &[], Door::Plain, programs),
            Server::FloorBytes => start_alone("floor", &programs.floor, &["bytes"], Door::Plain, programs),
            Server::Rmcp => start_alone("rmcp", &programs.rmcp, &[], Door::Mcp, programs),
        }
    }
}

fn start_alone(
    name: &str,
    program: &Path,
    arguments: &[&str],
    door: Door,
    programs: &Programs,
) -> anyhow::Result<Started> {
    let process = start_pinned(name, program, &words(arguments), programs)?;
    let address = process.ready_value("listen")?.parse()?;
    Ok(Started {
        process,
        behind: None,
        address,
        door,
        publisher: Publisher::http(address)?,
    })
}

fn start_gateway(programs: &Programs) -> anyhow::Result<Started> {
    // Each start has a store of its own: what an earlier one left behind must not cost or help.
    let data = programs.folder.join("data");
    if data.exists() {
        std::fs::remove_dir_all(&data).context("cannot empty the store's folder")?;
    }
    std::fs::create_dir_all(&data)?;
    let schema = programs.folder.join("schema.graphql");
    std::fs::write(&schema, SCHEMA)?;

    let (data, schema) = (data.display().to_string(), schema.display().to_string());
    let arguments = words(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        &data,
        "--schema",
        &schema,
    ]);
    let feed = ServerProcess::start("feedsvc", &programs.feedsvc, &arguments, &programs.folder)?;
    let feed_address = feed.ready_value("listen")?;

    let feed_url = format!("http://{feed_address}");
    let any = "127.0.0.1:0";
    let arguments = words(&["serve", "--feed", &feed_url, "--application", any, "--admin", any]);
    let process = start_pinned("gateway", &programs.gateway, &arguments, programs)?;
    let address = process.ready_value("application")?.parse()?;
    let publisher = Publisher::commits(feed_address)?;
    Ok(Started {
        process,
        behind: Some(feed),
        address,
        door: Door::Mcp,
        publisher,
    })
}

fn start_pinned(
    name: &str,
    program: &Path,
    arguments: &[String],
    programs: &Programs,
) -> anyhow::Result<ServerProcess> {
    let start = || ServerProcess::start(name, program, arguments, &programs.folder);
    match programs.cores {
        Some(cores) => cores.on_server_core(start),
        None => start(),
    }
}

fn words(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}
