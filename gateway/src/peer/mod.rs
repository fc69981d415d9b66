//! Other gateways: hands them what belongs to something that lives in one of them only, and takes the same from them.
//!
//! [`client`] is the asking half, [`server`] the listener; the contract is `peer/v1/peer.proto`. The only place that knows it.

mod client;
mod server;

use std::sync::Arc;

use bytes::Bytes;

pub(crate) use client::{PeerClient, PeerError};
pub(crate) use server::serve;

use crate::protocol::message::RequestId;

/// A message of an HTTP+SSE client on its way to the instance that holds the client's stream.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    /// The name of the principal that sent it; empty: anonymous.
    pub(crate) principal: String,
    /// The session.
    pub(crate) session: String,
    /// The body as it was sent.
    pub(crate) body: Bytes,
}

/// A request whose client does not want its answer any more.
#[derive(Clone, Debug)]
pub(crate) struct Cancelled {
    /// The name of the principal that says so; empty: anonymous.
    pub(crate) principal: String,
    /// The session.
    pub(crate) session: String,
    /// The request's id.
    pub(crate) request: RequestId,
}

/// What the other instance did with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// What comes of it goes out on the session's stream.
    Accepted,
    /// It is refused as a whole.
    Refused {
        /// Why.
        cause: RefusedFor,
        /// The JSON-RPC error that the client gets.
        answer: Vec<u8>,
    },
}

/// Why a message was refused by another instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedFor {
    /// It breaks a rule of the protocol.
    Invalid,
    /// There is no such session.
    UnknownSession,
    /// It cannot be taken now.
    Unavailable,
    /// Something is wrong there.
    Internal,
}

/// Takes what other instances hand over.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// Takes a message; `None` if no stream of its session is here. Returns before the call is carried out.
    fn take(self: Arc<Self>, handed: Handed) -> impl Future<Output = Option<Taken>> + Send;

    /// Cancels a request that is being answered here; returns whether there was one.
    fn cancel(&self, cancelled: &Cancelled) -> bool;
}
