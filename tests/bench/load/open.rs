//! Opens many sessions at once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, anyhow, ensure};

use super::fleet::OpenStream;
use super::http::Connection;
use crate::URI;

/// Enough that commits of the feed service share their fsync, few enough for one core.
const OPENING_THREADS: usize = 16;

/// How a session of a server is opened.
#[derive(Clone, Copy, Debug)]
pub enum Door {
    /// `GET /stream`, nothing else.
    Plain,
    /// MCP 2025-11-25 over Streamable HTTP: initialize, initialized, GET, subscribe.
    Mcp,
}

/// Opens `count` sessions, each with a stream and (where the server has such) one subscription.
///
/// # Errors
/// Any of them cannot be opened.
pub fn open_sessions(address: SocketAddr, door: Door, count: usize) -> anyhow::Result<Vec<OpenStream>> {
    let next = AtomicUsize::new(0);
    let open_some = || -> anyhow::Result<Vec<OpenStream>> {
        let mut requests = Connection::open(address)?;
        let mut streams = Vec::new();
        while next.fetch_add(1, Ordering::Relaxed) < count {
            streams.push(match door {
                Door::Plain => Connection::open(address)?.into_stream("/stream", &[])?,
                Door::Mcp => open_mcp(address, &mut requests)?.1,
            });
        }
        Ok(streams)
    };
    at_once(count, open_some)
}

/// Opens `count` sessions of MCP, each with a stream and one subscription, and returns them with their ids.
///
/// # Errors
/// Any of them cannot be opened.
pub fn open_mcp_sessions(address: SocketAddr, count: usize) -> anyhow::Result<Vec<(String, OpenStream)>> {
    let next = AtomicUsize::new(0);
    at_once(count, || {
        let mut requests = Connection::open(address)?;
        let mut sessions = Vec::new();
        while next.fetch_add(1, Ordering::Relaxed) < count {
            sessions.push(open_mcp(address, &mut requests)?);
        }
        Ok(sessions)
    })
}

/// Opens the streams of sessions again, after the frame with this id.
///
/// # Errors
/// Any of them cannot be opened.
pub fn resume_mcp_sessions(
    address: SocketAddr,
    sessions: &[String],
    last_id: u64,
) -> anyhow::Result<Vec<OpenStream>> {
    let next = AtomicUsize::new(0);
    let last_id = last_id.to_string();
    at_once(sessions.len(), || {
        let mut streams = Vec::new();
        while let Some(session) = sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let headers = [
                ("Accept", "text/event-stream"),
                ("Mcp-Session-Id", session),
                ("MCP-Protocol-Version", "2025-11-25"),
                ("Last-Event-ID", &last_id),
            ];
            streams.push(Connection::open(address)?.into_stream("/mcp", &headers)?);
        }
        Ok(streams)
    })
}

/// Runs `some` on as many threads as open sessions at once.
fn at_once<T: Send>(
    count: usize,
    some: impl Fn() -> anyhow::Result<Vec<T>> + Sync,
) -> anyhow::Result<Vec<T>> {
    let mut all = Vec::with_capacity(count);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..OPENING_THREADS.min(count))
            .map(|_| scope.spawn(&some))
            .collect();
        for thread in threads {
            let opened = thread
                .join()
                .map_err(|_| anyhow!("a thread that opens sessions panicked"))?;
            all.extend(opened.context("cannot open a session")?);
        }
        Ok(all)
    })
}

fn open_mcp(address: SocketAddr, requests: &mut Connection) -> anyhow::Result<(String, OpenStream)> {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
    let answer = requests.request("POST", "/mcp", &POST_HEADERS, initialize)?;
    let session = answer
        .head
        .find("mcp-session-id")
        .context("initialize was answered without a session id")?;

    let of_session = [
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let posted: Vec<_> = POST_HEADERS.iter().chain(&of_session).copied().collect();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    requests.request("POST", "/mcp", &posted, initialized)?;

    let got: Vec<_> = [("Accept", "text/event-stream")]
        .iter()
        .chain(&of_session)
        .copied()
        .collect();
    let stream = Connection::open(address)?.into_stream("/mcp", &got)?;

    let subscribe =
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{{"uri":"{URI}"}}}}"#);
    let answer = requests.request("POST", "/mcp", &posted, &subscribe)?;
    ensure!(
        answer.body.contains("\"result\""),
        "cannot subscribe: {}",
        answer.body
    );
    Ok((session.to_owned(), stream))
}

const POST_HEADERS: [(&str, &str); 2] = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
];
