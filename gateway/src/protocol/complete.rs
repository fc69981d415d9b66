//! A result of the modern era: the method's own members, and what every result has besides.
//!
//! MCP 2026-07-28, Overview, ResultType and Per-response protocol fields; Caching. The additions are written in front of
//! the members that a method gives, so that a result is the same type in both eras and its digits are not touched.

use serde::Serialize;

use super::answer::{self, EncodeError};
use super::cursor::CURSOR_KEY;
use super::line;
use super::message::RequestId;

const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// For whom a result may be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheScope {
    /// For everybody: it is the same for every principal.
    Public,
    /// For this principal.
    Private,
}

/// How long a client may take a result for fresh, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheHint {
    /// In milliseconds.
    pub(crate) ttl_ms: u64,
    /// For whom.
    pub(crate) scope: CacheScope,
}

/// What a result carries besides the method's own members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Additions {
    /// The hint of a result that may be cached.
    pub(crate) cache: Option<CacheHint>,
    /// The state that the result reflects, for the resume extension.
    pub(crate) cursor: Option<String>,
}

/// Encodes the answer of a request of the modern era that succeeded; `server` is who the server is, as JSON.
///
/// # Errors
/// As [`answer::result`]; `result` must be an object without `_meta` and `resultType`.
pub(crate) fn result(
    id: &RequestId,
    result: &impl Serialize,
    server: &str,
    additions: &Additions,
) -> Result<Vec<u8>, EncodeError> {
    let mut before = b"\"resultType\":\"complete\",".to_vec();
    if let Some(CacheHint { ttl_ms, scope }) = additions.cache {
        before.extend_from_slice(b"\"ttlMs\":");
        before.extend_from_slice(ttl_ms.to_string().as_bytes());
        before.extend_from_slice(match scope {
            CacheScope::Public => b",\"cacheScope\":\"public\",",
            CacheScope::Private => b",\"cacheScope\":\"private\",",
        });
    }
    before.extend_from_slice(b"\"_meta\":{");
    push_server_info(&mut before, server);
    if let Some(cursor) = &additions.cursor {
        before.push(b',');
        push_cursor(&mut before, cursor);
    }
    before.push(b'}');
    answer::result_with(id, &before, result)
}

/// Encodes the answer of a request of the legacy era that reflects a state that a client may want to go on from.
///
/// # Errors
/// As [`answer::result`]; `result` must be an object without `_meta`.
pub(crate) fn legacy_result(
    id: &RequestId,
    result: &impl Serialize,
    cursor: &str,
) -> Result<Vec<u8>, EncodeError> {
    let mut before = b"\"_meta\":{".to_vec();
    push_cursor(&mut before, cursor);
    before.push(b'}');
    answer::result_with(id, &before, result)
}

/// Appends the member of `_meta` that names the server.
pub(super) fn push_server_info(out: &mut Vec<u8>, server: &str) {
    line::push_string(out, SERVER_INFO_KEY);
    out.push(b':');
    line::push_json(out, server);
}

fn push_cursor(out: &mut Vec<u8>, cursor: &str) {
    line::push_string(out, CURSOR_KEY);
    out.push(b':');
    line::push_string(out, cursor);
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::super::message::RequestId;
    use super::{Additions, CacheHint, CacheScope, legacy_result, result};

    fn id() -> RequestId {
        RequestId::read(&serde_json::from_str::<Box<RawValue>>("\"1\"").unwrap()).unwrap()
    }

    #[test]
    fn b_6_2_a_result_says_its_type_its_server_and_how_long_it_is_fresh() {
        let server = json!({"name": "tidegate", "title": "Tidegate", "version": env!("CARGO_PKG_VERSION")});
        let text = server.to_string();
        let bare = result(&id(), &json!({}), &text, &Additions::default()).unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": "1", "result": {
            "resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": server},
        }});
        assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), expected);

        let additions = Additions {
            cache: Some(CacheHint {
                ttl_ms: 5,
                scope: CacheScope::Private,
            }),
            cursor: Some("c".to_owned()),
        };
        let full = result(&id(), &json!({"a": 1.0}), &text, &additions).unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": "1", "result": {
            "resultType": "complete", "ttlMs": 5, "cacheScope": "private", "a": 1.0,
            "_meta": {"io.modelcontextprotocol/serverInfo": server, "dev.tidegate/cursor": "c"},
        }});
        assert_eq!(serde_json::from_slice::<Value>(&full).unwrap(), expected);
        assert!(
            String::from_utf8(full).unwrap().ends_with(r#","a":1.0}}"#),
            "digits are kept"
        );
    }

    #[test]
    fn a_legacy_result_carries_the_cursor_alone() {
        let answer = legacy_result(&id(), &json!({"contents": []}), "c").unwrap();
        let expected = json!({"jsonrpc": "2.0", "id": "1", "result": {
            "_meta": {"dev.tidegate/cursor": "c"}, "contents": [],
        }});
        assert_eq!(serde_json::from_slice::<Value>(&answer).unwrap(), expected);
    }
}
