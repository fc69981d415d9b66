//! What belongs to one process only and was asked for here: a call that another instance answers, and what became of its answer.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use super::{Dispatcher, Headers, Outcome, RefusalCause, failed, refused};
use crate::method::Failure;
use crate::peer::Cancelled;
use crate::protocol::error::RpcError;
use crate::protocol::event_id::post_stream_instance;
use crate::protocol::message::RequestId;
use crate::protocol::trace::TraceId;
use crate::session::Session;

/// How long others are asked for a call. A client does not wait for what becomes of a cancellation.
const ASK_MAX: Duration = Duration::from_secs(1);

/// The most instances that are asked.
const ASKED_MAX: usize = 64;

impl Dispatcher {
    /// Cancels a request of a session that another instance may be answering; returns whether one was.
    ///
    /// An id of a client's request does not say where that is answered, so every instance is asked.
    pub(super) async fn cancel_elsewhere(&self, session: &Session, request: &RequestId) -> bool {
        let asked = async {
            let instances = match self.feed.list_instances().await {
                Ok(instances) => instances,
                Err(error) => {
                    debug!(session.id = %session.id, %error, "cannot ask where a request is answered");
                    return false;
                }
            };
            let mut asking = JoinSet::new();
            let others = instances
                .into_iter()
                .filter(|(name, address)| name != self.feed.instance() && !address.is_empty());
            for (name, address) in others.take(ASKED_MAX) {
                let cancelled = Cancelled {
                    principal: session.principal.to_string(),
                    session: session.id.to_string(),
                    request: request.clone(),
                };
                let peers = self.peers.clone();
                asking.spawn(async move { peers.cancel(&name, &address, cancelled).await });
            }
            while let Some(answer) = asking.join_next().await {
                // One that is gone answers nothing any more.
                if matches!(answer, Ok(Ok(true))) {
                    return true;
                }
            }
            false
        };
        timeout(ASK_MAX, asked).await.unwrap_or(false)
    }

    /// Answers who wants to go on with a POST stream that is not here.
    pub(super) async fn post_stream(&self, headers: Headers<'_>, trace: TraceId) -> Outcome {
        let instance = post_stream_instance(headers.last_event_id).unwrap_or_default();
        let instances = match self.feed.list_instances().await {
            Ok(instances) => instances,
            Err(error) => return failed(trace, None, Failure::from(error)),
        };
        let error = if instances.iter().any(|(name, _)| name == instance) {
            // No method answers by a stream yet, so there is none, and never was, on any instance.
            RpcError::invalid_request("no POST stream with this event id is open")
        } else {
            RpcError::internal("the result of this call was lost, call again")
        };
        refused(RefusalCause::Invalid, None, &error)
    }
}
