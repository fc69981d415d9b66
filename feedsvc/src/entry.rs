//! Entries of the feed in the form in which they are stored and sent: encoded once, without the record's values.

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::{Change, Entry, Operation, SessionCommand, entry::Body, session_command::Command};

use crate::catalog::TableName;
use crate::revision::Revision;

/// What all entries of one commit have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitHeader<'a> {
    pub(crate) commit_time_ms: i64,
    /// The last revision of the commit.
    pub(crate) commit_end: Revision,
    pub(crate) principal: &'a str,
    pub(crate) traceparent: &'a str,
}

/// Encodes the entry of a change of one record, without the record before and after.
pub(crate) fn encode_change(
    header: &CommitHeader<'_>,
    revision: Revision,
    operation: Operation,
    table: &TableName,
    key: &str,
) -> Bytes {
    let change = Change {
        operation: operation.into(),
        database: table.database.clone(),
        table: table.table.clone(),
        key: key.to_owned(),
        ..Change::default()
    };
    encode(header, revision, Body::Change(change))
}

/// Encodes the entry of a session command.
pub(crate) fn encode_session_command(
    header: &CommitHeader<'_>,
    revision: Revision,
    session_id: &str,
    command: Command,
) -> Bytes {
    let command = SessionCommand {
        session_id: session_id.to_owned(),
        command: Some(command),
    };
    encode(header, revision, Body::Session(command))
}

fn encode(header: &CommitHeader<'_>, revision: Revision, body: Body) -> Bytes {
    let entry = Entry {
        revision: revision.0,
        commit_time_ms: header.commit_time_ms,
        commit_end: header.commit_end.0,
        principal: header.principal.to_owned(),
        traceparent: header.traceparent.to_owned(),
        body: Some(body),
    };
    entry.encode_to_vec().into()
}

/// Returns a stored entry with the record before and after put in; an entry that is no change has none.
///
/// # Errors
/// The bytes are no entry.
pub(crate) fn decode_with_values(
    encoded: &[u8],
    before: Option<Bytes>,
    after: Option<Bytes>,
) -> Result<Entry, prost::DecodeError> {
    let mut entry = Entry::decode(encoded)?;
    if let Some(Body::Change(change)) = &mut entry.body {
        change.before = before.unwrap_or_default();
        change.after = after.unwrap_or_default();
    }
    Ok(entry)
}

/// Returns `traceparent` if it is one by W3C Trace Context (level 1, section 3.2), else nothing.
pub(crate) fn checked_traceparent(traceparent: &str) -> &str {
    let mut parts = traceparent.split('-');
    let is_hex = |part: Option<&str>, length: usize| {
        part.is_some_and(|part| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let is_valid = parts.next() == Some("00")
        && is_hex(parts.next(), 32)
        && is_hex(parts.next(), 16)
        && is_hex(parts.next(), 2)
        && parts.next().is_none();
    if is_valid { traceparent } else { "" }
}

#[cfg(test)]
mod tests {
    use super::checked_traceparent;

    #[test]
    fn a_traceparent_that_does_not_parse_is_dropped() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(checked_traceparent(valid), valid);
        for invalid in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            &valid[1..],
            "00-x-y-z",
        ] {
            assert_eq!(checked_traceparent(invalid), "", "{invalid}");
        }
        assert_eq!(checked_traceparent(&valid.to_uppercase()), "");
    }
}
