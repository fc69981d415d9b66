//! An entry of the access log on its way in: checked, cut and without secrets.

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::AccessEntry;

use super::redaction::redacted;
use crate::catalog::json::{Json, object_to_text};
use crate::entry::checked_traceparent;
use crate::refusal::Refusal;

/// The bounds of an entry (access.proto).
const NAME_LIMIT_BYTES: usize = 200;
const PRINCIPAL_LIMIT_BYTES: usize = 1_024;
const OBJECT_LIMIT_BYTES: usize = 8_192;
const ARGUMENTS_LIMIT_BYTES: usize = 16 * 1024;
/// How much of a session's id is kept: enough to tell sessions apart, too little to use one.
const SESSION_CHARS: usize = 8;
/// About what an entry costs in the store besides its bytes.
const OVERHEAD_BYTES: usize = 128;

/// An entry without its number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AccessRecord {
    entry: AccessEntry,
}

impl AccessRecord {
    /// Checks an entry as it was sent.
    ///
    /// # Errors
    /// The first field that is empty, too large, or no JSON object.
    pub(crate) fn check(entry: AccessEntry) -> Result<AccessRecord, Refusal> {
        if entry.method.is_empty() {
            return Err(invalid("entries.method", "it is empty"));
        }
        if entry.outcome.is_empty() {
            return Err(invalid("entries.outcome", "it is empty"));
        }
        if entry.time_ms < 0 {
            return Err(invalid("entries.time_ms", "it is negative"));
        }
        for (field, text, limit) in [
            ("entries.method", &entry.method, NAME_LIMIT_BYTES),
            ("entries.outcome", &entry.outcome, NAME_LIMIT_BYTES),
            ("entries.instance", &entry.instance, NAME_LIMIT_BYTES),
            ("entries.principal", &entry.principal, PRINCIPAL_LIMIT_BYTES),
            ("entries.object", &entry.object, OBJECT_LIMIT_BYTES),
        ] {
            if text.len() > limit {
                return Err(Refusal::TooLarge { what: field, limit });
            }
        }
        if entry.arguments.len() > ARGUMENTS_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "entries.arguments",
                limit: ARGUMENTS_LIMIT_BYTES,
            });
        }
        let arguments = if entry.arguments.is_empty() {
            Bytes::new()
        } else {
            match Json::parse(&entry.arguments) {
                Ok(Json::Object(arguments)) => object_to_text(&redacted(arguments)).into(),
                Ok(_) | Err(_) => return Err(invalid("entries.arguments", "it is no JSON object")),
            }
        };
        Ok(AccessRecord {
            entry: AccessEntry {
                number: 0,
                session: entry.session.chars().take(SESSION_CHARS).collect(),
                traceparent: checked_traceparent(&entry.traceparent).to_owned(),
                arguments,
                ..entry
            },
        })
    }

    /// Returns about how much the entry takes in the store.
    pub(crate) fn size_bytes(&self) -> usize {
        self.entry.encoded_len() + OVERHEAD_BYTES
    }

    pub(crate) fn time_ms(&self) -> i64 {
        self.entry.time_ms
    }

    pub(crate) fn principal(&self) -> &str {
        &self.entry.principal
    }

    pub(crate) fn method(&self) -> &str {
        &self.entry.method
    }

    /// Encodes the entry as it is stored, under its number.
    pub(crate) fn encode(&self, number: u64) -> Vec<u8> {
        AccessEntry {
            number,
            ..self.entry.clone()
        }
        .encode_to_vec()
    }
}

fn invalid(field: &'static str, problem: &'static str) -> Refusal {
    Refusal::InvalidArgument { field, problem }
}

#[cfg(test)]
mod tests {
    use proto::feed::v1::AccessEntry;

    use super::AccessRecord;

    fn entry() -> AccessEntry {
        AccessEntry {
            method: "tools/call".to_owned(),
            outcome: "ok".to_owned(),
            ..AccessEntry::default()
        }
    }

    /// The refusal's text, or nothing.
    fn check(entry: AccessEntry, expected: &str) {
        let refused = AccessRecord::check(entry.clone()).err();
        assert_eq!(
            refused.map(|refusal| refusal.to_string()).unwrap_or_default(),
            expected,
            "{:?}",
            entry.method
        );
    }

    #[test]
    fn b_15_3_an_entry_is_bounded_in_every_field() {
        let long = |length| "x".repeat(length);
        check(entry(), "");
        for (entry, expected) in [
            (
                AccessEntry {
                    method: String::new(),
                    ..entry()
                },
                "invalid `entries.method`: it is empty",
            ),
            (
                AccessEntry {
                    outcome: String::new(),
                    ..entry()
                },
                "invalid `entries.outcome`: it is empty",
            ),
            (
                AccessEntry {
                    method: long(201),
                    ..entry()
                },
                "entries.method is larger than 200 bytes",
            ),
            (
                AccessEntry {
                    outcome: long(201),
                    ..entry()
                },
                "entries.outcome is larger than 200 bytes",
            ),
            (
                AccessEntry {
                    instance: long(201),
                    ..entry()
                },
                "entries.instance is larger than 200 bytes",
            ),
            (
                AccessEntry {
                    principal: long(1_025),
                    ..entry()
                },
                "entries.principal is larger than 1024 bytes",
            ),
            (
                AccessEntry {
                    object: long(8_193),
                    ..entry()
                },
                "entries.object is larger than 8192 bytes",
            ),
            (
                AccessEntry {
                    arguments: long(16_385).into(),
                    ..entry()
                },
                "entries.arguments is larger than 16384 bytes",
            ),
            (
                AccessEntry {
                    arguments: "[]".into(),
                    ..entry()
                },
                "invalid `entries.arguments`: it is no JSON object",
            ),
            (
                AccessEntry {
                    arguments: "{".into(),
                    ..entry()
                },
                "invalid `entries.arguments`: it is no JSON object",
            ),
        ] {
            check(entry, expected);
        }
        let largest = AccessEntry {
            method: long(200),
            outcome: long(200),
            instance: long(200),
            principal: long(1_024),
            object: long(8_192),
            ..entry()
        };
        check(largest, "");
    }

    #[test]
    fn b_15_3_session_ids_are_cut_and_numbers_not_read() {
        let sent = AccessEntry {
            number: 7,
            session: "äbcdefghijklmnop".to_owned(),
            traceparent: "nonsense".to_owned(),
            ..entry()
        };
        let kept = AccessRecord::check(sent).unwrap().entry;
        assert_eq!(
            (kept.number, kept.session.as_str(), kept.traceparent.as_str()),
            (0, "äbcdefgh", "")
        );
    }
}
