//! Where a refusal becomes a gRPC status with `google.rpc.ErrorInfo`.

use std::collections::HashMap;

use proto::{ERROR_DOMAIN, Reason};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tracing::error;

use crate::refusal::Refusal;

/// How long a message becomes. A status travels in a header block, of which clients take 16 KiB, and the message stands
/// in it twice, once with three bytes for each that is not ASCII.
const MESSAGE_LIMIT_BYTES: usize = 1_024;
/// How long a value of the metadata becomes; a record's key fits.
const VALUE_LIMIT_BYTES: usize = 1_024;

/// Returns the status that the contract names for a refusal (feed.proto, "Errors").
pub(super) fn status(refusal: Refusal) -> Status {
    let message = shortened(refusal.to_string(), MESSAGE_LIMIT_BYTES);
    let (code, reason, metadata) = match refusal {
        Refusal::InvalidArgument { .. } => (Code::InvalidArgument, Reason::InvalidArgument, vec![]),
        Refusal::InvalidQuery(_) => (Code::InvalidArgument, Reason::InvalidArgument, vec![]),
        Refusal::InvalidCursor => (Code::InvalidArgument, Reason::InvalidCursor, vec![]),
        Refusal::ScanLimit(refused) => (
            Code::ResourceExhausted,
            Reason::ScanLimit,
            vec![
                ("limit", refused.limit.to_string()),
                (
                    "attributes",
                    [refused.missing, refused.building].concat().join(","),
                ),
            ],
        ),
        Refusal::HiddenLimit { limit } => (
            Code::ResourceExhausted,
            Reason::ScanLimit,
            vec![("limit", limit.to_string())],
        ),
        Refusal::InvalidRecord(fault) => (
            Code::InvalidArgument,
            Reason::InvalidRecord,
            vec![("table", fault.table.to_string()), ("attribute", fault.attribute)],
        ),
        Refusal::TooLarge { limit, .. } => (
            Code::InvalidArgument,
            Reason::TooLarge,
            vec![("limit_bytes", limit.to_string())],
        ),
        Refusal::UnknownFeed { .. } => (Code::NotFound, Reason::UnknownFeed, vec![]),
        Refusal::UnknownTable { .. } => (Code::NotFound, Reason::UnknownTable, vec![]),
        Refusal::PreconditionFailed { table, key, present } => (
            Code::FailedPrecondition,
            Reason::PreconditionFailed,
            vec![
                ("table", table.to_string()),
                ("key", key),
                ("revision", present.to_string()),
            ],
        ),
        Refusal::IdempotencyKeyReused => (Code::AlreadyExists, Reason::IdempotencyKeyReused, vec![]),
        Refusal::UnknownSession => (Code::NotFound, Reason::UnknownSession, vec![]),
        Refusal::ForeignSession => (Code::PermissionDenied, Reason::ForeignSession, vec![]),
        Refusal::NoStream => (Code::FailedPrecondition, Reason::NoStream, vec![]),
        Refusal::Fenced => (Code::FailedPrecondition, Reason::Fenced, vec![]),
        Refusal::TooManySubscriptions { limit } => (
            Code::ResourceExhausted,
            Reason::TooManySubscriptions,
            vec![("limit", limit.to_string())],
        ),
        Refusal::TooManySessions { whose, limit } => (
            Code::ResourceExhausted,
            Reason::TooManySessions,
            vec![("limit", limit.to_string()), ("whose", whose.name().to_owned())],
        ),
        Refusal::Compacted { oldest } => (
            Code::OutOfRange,
            Reason::Compacted,
            vec![("oldest", oldest.to_string())],
        ),
        Refusal::LostHistory { head } => (
            Code::OutOfRange,
            Reason::LostHistory,
            vec![("head", head.to_string())],
        ),
        Refusal::Denied(denied) => {
            let (action, object, attribute) = denied.metadata();
            let mut metadata = vec![("action", action.to_owned()), ("object", object)];
            metadata.extend(attribute.map(|attribute| ("attribute", attribute)));
            (Code::PermissionDenied, Reason::PermissionDenied, metadata)
        }
        Refusal::BackupPlace { .. } => (Code::InvalidArgument, Reason::InvalidArgument, vec![]),
        Refusal::BackupFailed { .. } => (Code::FailedPrecondition, Reason::BackupFailed, vec![]),
        Refusal::Unavailable => (Code::Unavailable, Reason::Unavailable, vec![]),
        Refusal::Internal(cause) => {
            error!(error = %cause, "a call failed");
            (Code::Internal, Reason::Internal, vec![])
        }
    };
    let metadata: HashMap<String, String> = metadata
        .into_iter()
        .map(|(name, value)| (name.to_owned(), shortened(value, VALUE_LIMIT_BYTES)))
        .collect();
    Status::with_error_details(
        code,
        message,
        ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, metadata),
    )
}

/// Cuts a text that is longer than a limit, between characters.
fn shortened(mut text: String, limit_bytes: usize) -> String {
    if text.len() > limit_bytes {
        let is_boundary = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=limit_bytes).rev().find(is_boundary).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}
