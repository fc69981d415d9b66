//! What every test of the services stands on.
//!
//! - `process`: starts a service, waits for what it prints, signals it, keeps its output for a failing test;
//! - `stack`: a feed service and gateways on a directory and addresses of their own;
//! - `http`: a plain HTTP/1.1 client on a socket, strict about framing;
//! - `async_http`: the same without a thread for each connection;
//! - `event_stream`: reads server-sent events and refuses what a client library would trip over;
//! - `mcp`: a session's client, made of `http` and JSON texts;
//! - `http_sse`: the same for the older transport;
//! - `modern`: a client of the era without sessions;
//! - `truth`: reads the log over gRPC, to compare with what clients saw;
//! - `random`: numbers from a seed that is printed and can be given;
//! - `wire`: a proxy that cuts, stalls and delays connections.
//!
//! Nothing here uses a type of the gateway. Every wait has a deadline and says what it waited for.

pub mod async_http;
pub mod event_stream;
pub mod frames;
pub mod http;
pub mod http_sse;
pub mod mcp;
pub mod modern;
pub mod process;
pub mod random;
pub mod stack;
pub mod truth;
pub mod wire;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen soon; generous, since it is only waited out by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Runs what has to be asynchronous: gRPC calls, proxies, readers of many streams.
pub static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime for the tests")
});

/// Asks until the answer is there, and panics with the last answer when it is not there in time.
///
/// For a state that announces itself nowhere; where there is an event, wait for that.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(last) if Instant::now() > deadline => {
                panic!("not in {PATIENCE:?}: {what}; last seen: {last}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
