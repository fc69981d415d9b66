//! Connections: accepts them, serves HTTP/1.1 on each, and ends them at the shutdown.
//!
//! An own loop instead of `axum::serve`, which has no header limits and time-outs and keeps 7 KB more for each
//! connection.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

/// The largest header block, and so hyper's read buffer.
const HEADER_LIMIT_BYTES: usize = 16 * 1024;

/// How long a client may take for the headers of a request, or stay idle between two.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// After so long without an acknowledgement of what was sent the peer is dead: two missed keep-alives.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to pause when no connection can be accepted, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves `router` on every connection of `listener` until `shutdown`; each connection is a task of `tasks`.
///
/// At the shutdown no connection is accepted any more, and each one ends after the response that it is sending.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                if let Err(error) = prepare(&stream) {
                    debug!(%peer, %error, "cannot set the options of a connection");
                }
                tasks.spawn(connection(stream, router.clone(), shutdown.clone()));
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    SockRef::from(stream).set_tcp_user_timeout(Some(PEER_TIMEOUT))?;
    Ok(())
}

async fn connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_LIMIT_BYTES);
    let mut connection =
        std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}
