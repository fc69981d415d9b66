//! Why a call to the feed service did not do what was asked; the one place that reads a gRPC status.

use proto::Reason;
use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tracing::warn;

/// Why a call to the feed service did not do what was asked. Nothing was changed, except where a variant says otherwise.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum FeedError {
    /// The service is away, ends, or cannot write; what was asked may be asked again.
    #[error("feed service unavailable")]
    Unavailable,
    /// The call took longer than its deadline; whether it was carried out is not known.
    #[error("the feed service did not answer in time")]
    Timeout,
    /// The session does not exist (any more), or is another principal's.
    #[error("session not found")]
    UnknownSession,
    /// No instance holds a live stream of the session.
    #[error("the session has no live stream")]
    NoStream,
    /// Somebody opened the stream again since.
    #[error("the stream was taken over")]
    Fenced,
    /// The session has as many subscriptions as it may.
    #[error("the session has its limit of subscriptions")]
    TooManySubscriptions,
    /// The principal has as many sessions as it may.
    #[error("the principal has its limit of sessions")]
    TooManySessions,
    /// The feed service has as many sessions as it may.
    #[error("the feed service has its limit of sessions")]
    TooManySessionsInAll,
    /// There is no such table.
    #[error("{0}")]
    UnknownTable(String),
    /// The record or the request is not acceptable; the text tells the caller why.
    #[error("{0}")]
    Invalid(String),
    /// The record, key or batch is too large; the text names the limit.
    #[error("{0}")]
    TooLarge(String),
    /// A precondition of the write does not hold, or its idempotency key was used for another one.
    #[error("{0}")]
    Conflict(String),
    /// The principal may not do this.
    #[error("permission denied")]
    PermissionDenied,
    /// The revision asked for is older than the log.
    #[error("the log no longer reaches back to the revision asked for")]
    Compacted,
    /// The service has another history than the one that the gateway followed.
    #[error("the feed service has another history")]
    LostHistory,
    /// Something else went wrong; the cause is in the logs.
    #[error("internal error of the feed service")]
    Internal,
}

impl From<Status> for FeedError {
    fn from(status: Status) -> FeedError {
        let reason = status
            .get_details_error_info()
            .filter(|info| info.domain == proto::ERROR_DOMAIN)
            .and_then(|info| Reason::find(&info.reason));
        let Some(reason) = reason else {
            return from_transport(&status);
        };
        let is_of_service = status
            .get_details_error_info()
            .is_some_and(|info| info.metadata.get("whose").is_some_and(|whose| whose == "service"));
        let text = || status.message().to_owned();
        match reason {
            Reason::InvalidArgument | Reason::InvalidRecord | Reason::InvalidCursor | Reason::ScanLimit => {
                FeedError::Invalid(text())
            }
            Reason::TooLarge => FeedError::TooLarge(text()),
            Reason::UnknownTable => FeedError::UnknownTable(text()),
            Reason::PreconditionFailed | Reason::IdempotencyKeyReused => FeedError::Conflict(text()),
            // A session of somebody else is answered like one that is not there (B-3.3).
            Reason::UnknownSession | Reason::ForeignSession => FeedError::UnknownSession,
            Reason::NoStream => FeedError::NoStream,
            Reason::Fenced => FeedError::Fenced,
            Reason::TooManySubscriptions => FeedError::TooManySubscriptions,
            Reason::TooManySessions if is_of_service => FeedError::TooManySessionsInAll,
            Reason::TooManySessions => FeedError::TooManySessions,
            Reason::Compacted => FeedError::Compacted,
            Reason::LostHistory => FeedError::LostHistory,
            Reason::PermissionDenied => FeedError::PermissionDenied,
            Reason::Unavailable => FeedError::Unavailable,
            Reason::UnknownFeed | Reason::BackupFailed | Reason::Internal => {
                warn!(%status, "the feed service refused a call");
                FeedError::Internal
            }
        }
    }
}

/// Reads a status that the feed service did not make itself: the transport's own.
fn from_transport(status: &Status) -> FeedError {
    match status.code() {
        Code::Unavailable => FeedError::Unavailable,
        Code::DeadlineExceeded => FeedError::Timeout,
        // tonic's own time-out and a connection that ends under a call come with these codes.
        Code::Cancelled => FeedError::Timeout,
        Code::Unknown => {
            warn!(%status, "the connection to the feed service broke");
            FeedError::Unavailable
        }
        _ => {
            warn!(%status, "a call to the feed service failed");
            FeedError::Internal
        }
    }
}
