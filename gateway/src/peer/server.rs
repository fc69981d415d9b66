//! The listener for other gateways.

use std::sync::Arc;
use std::time::Duration;

use proto::peer::v1;
use proto::peer::v1::server::peer_server::{Peer, PeerServer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tracing::warn;

use super::{Cancelled, Handed, Inbox, RefusedFor, Taken};
use crate::protocol::message::RequestId;

/// The largest message: a body of the largest size, with room for its envelope.
const REQUEST_LIMIT_BYTES: usize = 4 * 1024 * 1024 + 64 * 1024;

/// Calls of one connection at a time; beyond it HTTP/2 lets the caller wait.
const CALLS_PER_CONNECTION_MAX: u32 = 256;

/// How often a connection is probed, and how long the answer may take: what a vanished instance leaves behind ends.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

/// Takes what other instances hand to `instance` until `shutdown`.
pub(crate) async fn serve(
    listener: TcpListener,
    instance: String,
    inbox: Arc<impl Inbox>,
    shutdown: CancellationToken,
) {
    let service =
        PeerServer::new(PeerService { instance, inbox }).max_decoding_message_size(REQUEST_LIMIT_BYTES);
    let served = Server::builder()
        .max_concurrent_streams(CALLS_PER_CONNECTION_MAX)
        .http2_keepalive_interval(Some(KEEP_ALIVE.0))
        .http2_keepalive_timeout(Some(KEEP_ALIVE.1))
        .serve_with_incoming_shutdown(
            service,
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            shutdown.cancelled_owned(),
        )
        .await;
    if let Err(error) = served {
        warn!(%error, "the listener for other instances broke down");
    }
}

struct PeerService<I> {
    instance: String,
    inbox: Arc<I>,
}

#[tonic::async_trait]
impl<I: Inbox> Peer for PeerService<I> {
    async fn post(&self, request: Request<v1::PostRequest>) -> Result<Response<v1::PostResponse>, Status> {
        let request = request.into_inner();
        if request.instance != self.instance {
            return Err(Status::not_found("another instance has this address"));
        }
        let handed = Handed {
            principal: request.principal,
            session: request.session_id,
            body: request.body,
        };
        let taken = Arc::clone(&self.inbox).take(handed).await;
        let taken = taken.ok_or_else(|| Status::not_found("no stream of this session is here"))?;
        let refusal = match taken {
            Taken::Accepted => None,
            Taken::Refused { cause, answer } => Some(v1::Refusal {
                cause: write_cause(cause).into(),
                answer: answer.into(),
            }),
        };
        Ok(Response::new(v1::PostResponse { refusal }))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelResponse>, Status> {
        let request = request.into_inner();
        if request.instance != self.instance {
            return Err(Status::not_found("another instance has this address"));
        }
        let id = RequestId::from_raw(&request.request_id)
            .ok_or_else(|| Status::invalid_argument("request_id is no id of a request"))?;
        let found = self.inbox.cancel(&Cancelled {
            principal: request.principal,
            session: request.session_id,
            request: id,
        });
        Ok(Response::new(v1::CancelResponse { found }))
    }
}

fn write_cause(cause: RefusedFor) -> v1::refusal::Cause {
    match cause {
        RefusedFor::Invalid => v1::refusal::Cause::Invalid,
        RefusedFor::UnknownSession => v1::refusal::Cause::UnknownSession,
        RefusedFor::Unavailable => v1::refusal::Cause::Unavailable,
        RefusedFor::Internal => v1::refusal::Cause::Internal,
    }
}
