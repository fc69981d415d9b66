//! gRPC: the only place that knows tonic.
//!
//! `feed`, `log`, `sessions`, `access`, `keys` and `maintenance` translate calls, `search` those that read records, `watch` is the
//! stream of a watch, `watch_sight` and `log_view` what a caller sees of the log, `request` checks what requests have in common,
//! `status` is the one place where a refusal becomes a status. `client` is the other side, for the commands that are clients.

mod access;
#[cfg(test)]
mod access_tests;
pub(crate) mod client;
mod feed;
mod keys;
mod log;
mod log_view;
mod maintenance;
mod request;
#[cfg(test)]
mod rights_tests;
mod search;
#[cfg(test)]
mod search_tests;
mod sessions;
mod status;
#[cfg(test)]
mod tests;
mod watch;
mod watch_sight;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use proto::feed::v1::server::access_server::AccessServer;
use proto::feed::v1::server::feed_server::FeedServer;
use proto::feed::v1::server::keys_server::KeysServer;
use proto::feed::v1::server::maintenance_server::MaintenanceServer;
use proto::feed::v1::server::sessions_server::SessionsServer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tracing::error;

use crate::commit::Writability;
use crate::feed::Feed;

/// What tonic reads of a request, in limits of a commit: more than one, so that a commit that is somewhat too large is refused
/// with its reason.
const REQUEST_LIMIT_COMMITS: usize = 4;
/// How often a quiet peer is asked whether it is there; with the time-out, a dead gateway loses its leases within 10 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many calls one connection may have open: far above what a gateway runs at a time.
const CONCURRENT_STREAMS: u32 = 4_096;
/// How many calls may be cancelled before they were accepted. Clients with deadlines cancel in bursts, for which the
/// default of 20 ends the connection.
const PENDING_RESETS_MAX: usize = 2_048;
/// Room for requests in flight, so that a large commit does not wait for window updates.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Serves all services until `shutdown` is cancelled and every call has ended.
pub(crate) fn serve(
    feed: Arc<Feed>,
    listener: TcpListener,
    shutdown: CancellationToken,
    tasks: &TaskTracker,
) -> impl Future<Output = Result<(), tonic::transport::Error>> + use<> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let ended = feed.shutdown.clone();
    let mut writability = feed.writability.clone();
    tasks.spawn(async move {
        loop {
            let status = match &*writability.borrow_and_update() {
                Writability::Writable => ServingStatus::Serving,
                Writability::Failing { .. } => ServingStatus::NotServing,
            };
            // The service itself ends when the committer has.
            for service in [
                "",
                "feed.v1.Access",
                "feed.v1.Feed",
                "feed.v1.Keys",
                "feed.v1.Maintenance",
                "feed.v1.Sessions",
            ] {
                health.set_service_status(service, status).await;
            }
            tokio::select! {
                changed = writability.changed() => if changed.is_err() { return },
                () = ended.cancelled() => return,
            }
        }
    });

    let request_limit_bytes = request_limit_bytes(&feed);
    let feed_server =
        FeedServer::new(feed::FeedApi::new(Arc::clone(&feed))).max_decoding_message_size(request_limit_bytes);
    let sessions_server = SessionsServer::new(sessions::SessionsApi::new(Arc::clone(&feed)))
        .max_decoding_message_size(request_limit_bytes);
    let access_server = AccessServer::new(access::AccessApi::new(Arc::clone(&feed)))
        .max_decoding_message_size(request_limit_bytes);
    let keys_server = KeysServer::new(keys::KeysApi::new(Arc::clone(&feed)));
    let maintenance_server = MaintenanceServer::new(maintenance::MaintenanceApi::new(feed));
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        // The build wrote both sets; without reflection the calls themselves are served all the same.
        .inspect_err(|error| error!(error = %error, "reflection is not served"))
        .ok();
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(CONCURRENT_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .add_service(health_service)
        .add_service(feed_server)
        .add_service(sessions_server)
        .add_service(access_server)
        .add_service(keys_server)
        .add_service(maintenance_server)
        .add_optional_service(reflection)
        .serve_with_incoming_shutdown(incoming, shutdown.cancelled_owned())
}

/// Returns how large a message of a request may be, in bytes.
fn request_limit_bytes(feed: &Feed) -> usize {
    feed.limits.commit_bytes.saturating_mul(REQUEST_LIMIT_COMMITS)
}
