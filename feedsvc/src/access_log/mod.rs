//! The access log: who called what, and how it ended. It has numbers and a hash chain of its own and is never mixed with the audit log.
//!
//! `record` checks and cuts what a recorder sends, `redaction` takes secrets out of arguments, `verification`
//! walks the chain. Entries are appended by the commit path (`commit::access_log`), kept by the store and dropped by `maintenance::retention`.

mod record;
mod redaction;
mod verification;

pub(crate) use record::AccessRecord;
pub(crate) use verification::verify;
