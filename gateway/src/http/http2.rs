//! HTTP/2 on a connection, without TLS by prior knowledge (RFC 9113, section 3.3): many listens of one client at a time.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::accept::{self, Tasks};
use super::socket::Socket;

/// What an HTTP/2 client sends first (RFC 9113, section 3.4). No request of HTTP/1 begins so.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long to wait for the rest of a preface that came in pieces, which is rare: a look costs a system call.
const PREFACE_PAUSE: Duration = Duration::from_millis(5);

/// How many requests one connection may have open: a client with a listen for each of a thousand things.
const STREAMS_MAX: u32 = 1_024;

/// How often a client is asked whether it is there, and how long the answer may take: dead within 30 s, as in HTTP/1.
const PING: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(15));

/// Room for the body of one request before it is read.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Room for those of a whole connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// How much of one response may wait for a client that does not read; it is about one write of a stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    /// HTTP/1.1 or 1.0
    One,
    /// HTTP/2
    Two,
}

/// Looks at the first bytes of a connection, which stay there to be read.
///
/// # Errors
/// The connection broke, or ended before it said anything.
pub(super) async fn sniff(stream: &TcpStream) -> io::Result<HttpVersion> {
    let mut first = [0; PREFACE.len()];
    loop {
        let seen = stream.peek(&mut first).await?;
        let first = first.get(..seen).unwrap_or_default();
        if first.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !PREFACE.starts_with(first) {
            return Ok(HttpVersion::One);
        }
        if first.len() == PREFACE.len() {
            return Ok(HttpVersion::Two);
        }
        sleep(PREFACE_PAUSE).await;
    }
}

/// Serves a connection; when `bell` rings it takes no further request and ends after those that are open.
pub(super) async fn serve(
    socket: Socket,
    router: Router,
    header_bytes: usize,
    tasks: Tasks,
    bell: WaitForCancellationFutureOwned,
) {
    let mut builder = http2::Builder::new(Executing(tasks.connections));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES);
    // One for all streams of the connection: a client that reads none of them is found by it.
    let service = accept::service(router, socket.progress(), tasks.requests);
    let mut connection = pin!(builder.serve_connection(socket, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = bell => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}

/// Runs the requests of a connection as tasks that the end of the process waits for.
#[derive(Clone)]
struct Executing(TaskTracker);

impl<F> Executor<F> for Executing
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, request: F) {
        self.0.spawn(request);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn check(pieces: &[&[u8]], expected: Option<HttpVersion>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = async {
            let mut client = TcpStream::connect(address).await.unwrap();
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            client
        };
        let server = async { listener.accept().await.unwrap().0 };
        let (client, server) = tokio::join!(client, server);
        let open = if expected.is_none() {
            drop(client);
            None
        } else {
            Some(client)
        };
        assert_eq!(sniff(&server).await.ok(), expected, "{pieces:?}");
        drop(open);
    }

    #[tokio::test]
    async fn the_version_is_told_by_the_first_bytes() {
        check(&[PREFACE, b"more"], Some(HttpVersion::Two)).await;
        check(
            &[b"P", b"RI * HT", b"TP/2.0\r\n\r\nSM\r\n\r\n"],
            Some(HttpVersion::Two),
        )
        .await;
        check(&[b"POST /mcp HTTP/1.1\r\n"], Some(HttpVersion::One)).await;
        check(&[b"P", b"U"], Some(HttpVersion::One)).await;
        check(&[b"PRI * HTTP/1.1\r\n\r\n"], Some(HttpVersion::One)).await;
        check(&[b"GET"], Some(HttpVersion::One)).await;
        check(&[], None).await;
    }
}
