//! Why a method has no result, and the one place that reads the feed service's refusals for it.

use tracing::error;

use crate::feed::FeedError;
use crate::protocol::answer::EncodeError;
use crate::protocol::error::RpcError;

/// Why a method has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// The caller gets this error.
    Rpc(RpcError),
    /// The session is gone.
    UnknownSession,
    /// The feed service is away; nothing is lost, the caller may try again.
    Unavailable,
    /// The principal has as many sessions as it may.
    TooManySessions,
    /// There are as many sessions as there may be, whosever they are.
    TooManySessionsInAll,
    /// Something is wrong here; the cause is in the log.
    Internal,
}

impl From<RpcError> for Failure {
    fn from(error: RpcError) -> Failure {
        Failure::Rpc(error)
    }
}

impl From<EncodeError> for Failure {
    fn from(failure: EncodeError) -> Failure {
        error!(error = %failure, source = %failure.source, "cannot answer a request");
        Failure::Internal
    }
}

impl From<FeedError> for Failure {
    fn from(failure: FeedError) -> Failure {
        match failure {
            FeedError::Unavailable | FeedError::Timeout => Failure::Unavailable,
            FeedError::UnknownSession => Failure::UnknownSession,
            FeedError::TooManySessions => Failure::TooManySessions,
            FeedError::TooManySessionsInAll => Failure::TooManySessionsInAll,
            FeedError::UnknownTable(text)
            | FeedError::Invalid(text)
            | FeedError::TooLarge(text)
            | FeedError::Conflict(text) => Failure::Rpc(RpcError::invalid_params(text)),
            FeedError::PermissionDenied => Failure::Rpc(RpcError::invalid_params("permission denied")),
            FeedError::NoStream
            | FeedError::Fenced
            | FeedError::TooManySubscriptions
            | FeedError::Compacted
            | FeedError::LostHistory
            | FeedError::Internal => {
                error!(error = %failure, "the feed service refused what it should not");
                Failure::Internal
            }
        }
    }
}
