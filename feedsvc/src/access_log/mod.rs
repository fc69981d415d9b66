//! The access log: who called what, and how it ended. It has numbers and a hash chain of its own and is never mixed with the audit log.
//!
//! `record` checks and cuts what a recorder sends, `redaction` takes secrets out of arguments, `trimming` drops what is kept no longer, `verification` walks the chain. Entries are
//! appended by the commit path (`commit::access_log`) and kept by the store.

mod record;
mod redaction;
pub(crate) mod trimming;
mod verification;

pub(crate) use record::AccessRecord;
#[allow(unused_imports, reason = "`Maintenance.Verify` uses it with the next change")]
pub(crate) use verification::{AccessFinding, AccessVerified, verify};
