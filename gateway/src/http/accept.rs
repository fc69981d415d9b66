//! Connections: accepts them, serves HTTP/1.1 or HTTP/2 on each, and ends them at the shutdown.
//!
//! An own loop instead of `axum::serve`, which has no header limits and time-outs and keeps 7 KB more for each
//! connection.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, RETRY_AFTER};
use http::{Extensions, HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioTimer;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::Limits;
use super::answer::{refusal, retry_after};
use super::http2::{self, HttpVersion};
use super::socket::Socket;
use crate::protocol::error::RpcError;
use crate::session::WriteProgress;

/// Connections beyond the limit that are accepted at a time, to be told 503 instead of being left waiting.
const REFUSED_MAX: usize = 64;

/// How long one of those may take for the headers of its request.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to pause when no connection can be accepted, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is under way on the listeners.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    /// The connections.
    pub(crate) connections: TaskTracker,
    /// Requests whose response has not begun yet. They are counted, not run here.
    pub(crate) requests: TaskTracker,
}

/// Serves `router` on every connection of `listener` until `shutdown`; each connection is a task of `tasks`.
///
/// Beyond the limit of connections one gets 503 for its request, and beyond a few of those none is accepted. At the
/// shutdown no connection is accepted any more, and each one ends after the response that it is sending.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    write_timeout: Duration,
    tasks: Tasks,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let refused_places = Arc::new(Semaphore::new(REFUSED_MAX));
    let refusal = Router::new().fallback(refuse);
    let drain = Drain::default();
    loop {
        // A place first, in the usual case at once; when there is none, whatever comes free first.
        let (mut has_room, mut place) = tokio::select! {
            biased;
            () = shutdown.cancelled() => return drain.begin(),
            place = Arc::clone(&places).acquire_owned() => (true, place),
            place = Arc::clone(&refused_places).acquire_owned() => (false, place),
        };
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return drain.begin(),
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if !has_room && let Ok(free) = Arc::clone(&places).try_acquire_owned() {
                    // One came free while nobody called.
                    (has_room, place) = (true, Ok(free));
                }
                let (router, header_timeout) = if has_room {
                    (router.clone(), limits.header_timeout)
                } else {
                    (refusal.clone(), REFUSED_TIMEOUT)
                };
                let bounds = Bounds {
                    header_bytes: limits.header_bytes,
                    header_timeout,
                    write_timeout,
                    peer_timeout: limits.peer_timeout,
                };
                let connection = connection(stream, router, bounds, tasks.clone(), drain.clone());
                tasks.connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Tells a client that this instance has no room for its connection.
async fn refuse() -> Response {
    let error = RpcError::internal("too many connections to this instance");
    let close = [
        (RETRY_AFTER, retry_after()),
        (CONNECTION, HeaderValue::from_static("close")),
    ];
    (close, refusal(StatusCode::SERVICE_UNAVAILABLE, &error)).into_response()
}

/// Answers the requests of a connection; each is counted in `requests` until its response begins, and knows the
/// connection's `progress`.
pub(super) fn service(
    router: Router,
    progress: Arc<WriteProgress>,
    requests: TaskTracker,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send + 'static> + Clone
{
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Connection(Arc::clone(&progress)));
        let response = router.call(request.map(Body::new));
        // Counts as long as it lives.
        let request = requests.token();
        async move {
            let response = response.await;
            drop(request);
            response
        }
    })
}

/// What a request knows of the connection that it came by.
#[derive(Clone)]
struct Connection(Arc<WriteProgress>);

/// Returns the progress of the connection that a request with these extensions came by.
pub(super) fn progress_of(extensions: &Extensions) -> Arc<WriteProgress> {
    extensions
        .get::<Connection>()
        .map(|connection| Arc::clone(&connection.0))
        .unwrap_or_default()
}

/// The end of the connections of a listener.
#[derive(Clone, Default)]
struct Drain {
    /// Looked at for every frame, so a plain flag: looking at the token takes a lock.
    begun: Arc<AtomicBool>,
    bell: CancellationToken,
}

impl Drain {
    /// Lets every connection end after the response that it is sending.
    fn begin(&self) {
        // The flag first: who is woken by the bell looks at it.
        self.begun.store(true, Ordering::Release);
        self.bell.cancel();
    }
}

/// The bounds of one connection.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Of the headers of a request, together.
    header_bytes: usize,
    /// How long its client may take for them.
    header_timeout: Duration,
    /// How long it may take nothing of what is written.
    write_timeout: Duration,
    /// After so long without an acknowledgement it is gone.
    peer_timeout: Duration,
}

/// Serves one connection, in the version of HTTP that its first bytes are of.
async fn connection(stream: TcpStream, router: Router, bounds: Bounds, tasks: Tasks, drain: Drain) {
    let version = tokio::select! {
        // Nothing was asked yet, so there is nothing to answer.
        () = drain.bell.cancelled() => return,
        version = timeout(bounds.header_timeout, http2::sniff(&stream)) => version,
    };
    match version {
        Ok(Ok(HttpVersion::One)) => {
            http1_connection(stream, router, bounds, tasks.requests, drain).await;
        }
        // Apart from the rest, so that its size is not that of every connection.
        Ok(Ok(HttpVersion::Two)) => {
            let bell = drain.bell.cancelled_owned();
            let socket = Socket::new(
                stream,
                WriteProgress::default(),
                bounds.peer_timeout,
                bounds.write_timeout,
            );
            Box::pin(http2::serve(socket, router, bounds.header_bytes, tasks, bell)).await;
        }
        Ok(Err(error)) => debug!(%error, "a connection ended before its first request"),
        Err(_elapsed) => debug!("a connection sent nothing"),
    }
}

async fn http1_connection(
    stream: TcpStream,
    router: Router,
    bounds: Bounds,
    requests: TaskTracker,
    drain: Drain,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header_timeout)
        .max_buf_size(bounds.header_bytes);
    let socket = Socket::new(
        stream,
        WriteProgress::of_one_stream(),
        bounds.peer_timeout,
        bounds.write_timeout,
    );
    let service = service(router, socket.progress(), requests);
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut bell = pin!(drain.bell.cancelled_owned());
    let (mut listens, mut drains) = (false, false);
    let ended = poll_fn(|context| {
        if !listens {
            listens = true;
            // Polled once, to leave the waker: what it tells stands in the flag.
            let _ = bell.as_mut().poll(context);
        }
        if !drains && drain.begun.load(Ordering::Acquire) {
            drains = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await;
    if let Err(error) = ended {
        debug!(%error, "a connection ended");
    }
}
