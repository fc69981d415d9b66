//! The asking half: calls to other gateways, by the addresses that session records hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use proto::peer::v1;
use proto::peer::v1::peer_client::PeerClient as PeerStub;
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tracing::{debug, warn};

use super::{Cancelled, Handed, RefusedFor, Taken};

/// How long a connection attempt may take: a client waits for it, and within one network it takes a millisecond.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a call may take. It only hands over; a stopped instance is told from a busy one by this.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How many instances are kept connected. There are a few of them; addresses of those that ended drop out at the limit.
const PEERS_MAX: usize = 64;

/// Why another instance did not take what it was handed. It may have taken it where the variant says so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum PeerError {
    /// Another process has the address, or the stream is not there (any more). Nothing was done.
    #[error("the stream is not at this instance any more")]
    NotThere,
    /// The instance cannot be reached, or did not answer: it may have taken it.
    #[error("the instance does not answer")]
    Gone,
}

/// Calls other gateways. Cheap to clone; keeps connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerClient {
    /// By address. A std mutex: held for a look-up.
    channels: Arc<Mutex<HashMap<String, Channel>>>,
}

impl PeerClient {
    /// Hands a message to `instance` at `address`.
    pub(crate) async fn hand(
        &self,
        instance: &str,
        address: &str,
        handed: Handed,
    ) -> Result<Taken, PeerError> {
        let channel = self.channel(address)?;
        let mut request = Request::new(v1::PostRequest {
            instance: instance.into(),
            principal: handed.principal,
            session_id: handed.session,
            body: handed.body,
        });
        request.set_timeout(CALL_TIMEOUT);
        // A listener that was stopped takes connections but answers none; the header alone would not end the wait.
        let mut stub = PeerStub::new(channel).max_encoding_message_size(usize::MAX);
        let answer = tokio::time::timeout(CALL_TIMEOUT, stub.post(request)).await;
        let answer = answer.map_err(|_elapsed| PeerError::Gone)?;
        match answer
            .map_err(|status| read_status(address, &status))?
            .into_inner()
            .refusal
        {
            None => Ok(Taken::Accepted),
            Some(refusal) => Ok(Taken::Refused {
                cause: read_cause(refusal.cause()),
                answer: refusal.answer.into(),
            }),
        }
    }

    /// Cancels a request that `instance` at `address` may be answering; returns whether it was.
    pub(crate) async fn cancel(
        &self,
        instance: &str,
        address: &str,
        cancelled: Cancelled,
    ) -> Result<bool, PeerError> {
        let channel = self.channel(address)?;
        let mut request = Request::new(v1::CancelRequest {
            instance: instance.into(),
            principal: cancelled.principal,
            session_id: cancelled.session,
            request_id: cancelled.request.as_raw().into(),
        });
        request.set_timeout(CALL_TIMEOUT);
        let answer = tokio::time::timeout(CALL_TIMEOUT, PeerStub::new(channel).cancel(request)).await;
        let answer = answer.map_err(|_elapsed| PeerError::Gone)?;
        Ok(answer
            .map_err(|status| read_status(address, &status))?
            .into_inner()
            .found)
    }

    fn channel(&self, address: &str) -> Result<Channel, PeerError> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
            warn!(address, %error, "the record of a session names no address of an instance");
            PeerError::Gone
        })?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        if channels.len() >= PEERS_MAX {
            channels.clear();
        }
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }
}

fn read_status(address: &str, status: &Status) -> PeerError {
    match status.code() {
        Code::NotFound => PeerError::NotThere,
        code => {
            debug!(
                address,
                ?code,
                message = status.message(),
                "another instance did not take a message"
            );
            PeerError::Gone
        }
    }
}

fn read_cause(cause: v1::refusal::Cause) -> RefusedFor {
    match cause {
        v1::refusal::Cause::Invalid => RefusedFor::Invalid,
        v1::refusal::Cause::UnknownSession => RefusedFor::UnknownSession,
        v1::refusal::Cause::Unavailable => RefusedFor::Unavailable,
        v1::refusal::Cause::Internal | v1::refusal::Cause::Unspecified => RefusedFor::Internal,
    }
}
