//! The machine-readable reasons of refused calls, as they stand in `google.rpc.ErrorInfo.reason`.

/// The `domain` of every `google.rpc.ErrorInfo` that the feed service sends.
pub const ERROR_DOMAIN: &str = "feed.tidegate.dev";

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why a call was refused; the list and the meaning of each stand in `feed/v1/feed.proto`, "Errors".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the contract.
            pub const ALL: &[Reason] = &[$(Reason::$variant,)*];

            /// Returns the text that stands in `ErrorInfo.reason`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// A field of the request is missing or has a form that the contract does not allow.
    InvalidArgument = "INVALID_ARGUMENT",
    /// The record breaks the table's schema.
    InvalidRecord = "INVALID_RECORD",
    /// A record, a key or a batch is larger than a limit.
    TooLarge = "TOO_LARGE",
    /// The cursor is none that the service gave out for this search.
    InvalidCursor = "INVALID_CURSOR",
    /// The request names a feed that this service does not own.
    UnknownFeed = "UNKNOWN_FEED",
    /// The request names a table that the catalogue does not have.
    UnknownTable = "UNKNOWN_TABLE",
    /// A precondition of a commit does not hold.
    PreconditionFailed = "PRECONDITION_FAILED",
    /// An idempotency key was used again with another request.
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED",
    /// The session does not exist, or no longer.
    UnknownSession = "UNKNOWN_SESSION",
    /// The session belongs to another principal.
    ForeignSession = "FOREIGN_SESSION",
    /// The session has no live stream on any instance.
    NoStream = "NO_STREAM",
    /// The stream was opened again by somebody else since.
    Fenced = "FENCED",
    /// The session has as many subscriptions as it may have.
    TooManySubscriptions = "TOO_MANY_SUBSCRIPTIONS",
    /// The principal, or the service, has as many sessions as it may have.
    TooManySessions = "TOO_MANY_SESSIONS",
    /// A search would look at more records than it may without an index.
    ScanLimit = "SCAN_LIMIT",
    /// The revision asked for is below the oldest that the log still has.
    Compacted = "COMPACTED",
    /// The revision asked for is above the head, or its hash is not the log's: another history.
    LostHistory = "LOST_HISTORY",
    /// The principal has no right to do this.
    PermissionDenied = "PERMISSION_DENIED",
    /// The service cannot do this now: it starts, ends, or its store cannot be written.
    Unavailable = "UNAVAILABLE",
    /// A backup failed at a place that could take one, for example since the disk is full.
    BackupFailed = "BACKUP_FAILED",
    /// Something failed that is not the caller's fault; the cause is in the service's log.
    Internal = "INTERNAL",
}

impl Reason {
    /// Finds the reason with this text; `None` for one that this version does not know.
    pub fn find(text: &str) -> Option<Reason> {
        Reason::ALL.iter().copied().find(|reason| reason.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn every_reason_is_found_by_its_text() {
        for reason in Reason::ALL {
            assert_eq!(Reason::find(reason.as_str()), Some(*reason));
        }
        assert_eq!(Reason::find("nonsense"), None);
    }
}
