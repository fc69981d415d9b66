//! The frames of a GET stream: SSE events, encoded once and shared by every stream that sends them.
//!
//! A frame ends with a blank line, so frames can be put one behind the other; comments have none, since some clients
//! dispatch an empty event at every blank line once they have seen an id.

use std::time::Duration;

use bytes::Bytes;

use super::event_id::EventId;
use super::line::{self, Digits};

/// Keeps a quiet connection open. Not a frame: no blank line follows.
pub(crate) const COMMENT: &[u8] = b": \n";

/// The first bytes of a stream that has nothing to say yet, so that proxies let the headers go.
pub(crate) const OPENED: &[u8] = b": open\n";

/// A URI in a client's spelling, escaped to stand between the quotes of a JSON string.
///
/// Invariant: holds no control character and no line separator, so it cannot end a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EncodedUri(Box<[u8]>);

impl EncodedUri {
    /// Escapes a spelling, once for all its frames.
    pub(crate) fn new(uri: &str) -> EncodedUri {
        let mut escaped = Vec::with_capacity(uri.len());
        line::push_escaped(&mut escaped, uri);
        EncodedUri(escaped.into())
    }

    /// Returns the escaped text, without quotes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Which list a `list_changed` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// `notifications/tools/list_changed`
    Tools,
    /// `notifications/resources/list_changed`
    Resources,
    /// `notifications/prompts/list_changed`
    Prompts,
}

impl ListKind {
    /// All of them, in the order of the slots of their ids.
    pub(crate) const ALL: [ListKind; 3] = [ListKind::Tools, ListKind::Resources, ListKind::Prompts];
}

/// Encodes `notifications/resources/updated`; without an id it is the notice of a gap, which cannot be resumed from.
pub(crate) fn updated(id: Option<EventId>, uri: &EncodedUri) -> Bytes {
    const BEFORE_URI: &[u8] = b"event: message\ndata: {\"jsonrpc\":\"2.0\",\
        \"method\":\"notifications/resources/updated\",\"params\":{\"uri\":\"";
    encode(id, [BEFORE_URI, uri.as_bytes(), b"\"}}\n\n"])
}

/// Encodes a `list_changed` notification; without an id it is the notice of a gap.
pub(crate) fn list_changed(id: Option<EventId>, kind: ListKind) -> Bytes {
    let list: &[u8] = match kind {
        ListKind::Tools => b"tools",
        ListKind::Resources => b"resources",
        ListKind::Prompts => b"prompts",
    };
    const BEFORE_LIST: &[u8] = b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/";
    encode(id, [BEFORE_LIST, list, b"/list_changed\"}\n\n"])
}

/// Encodes the opening block of a stream: id, `retry`, empty data (MCP 2025-11-25, Transports, Sending Messages).
pub(crate) fn opening(id: EventId, retry: Duration) -> Bytes {
    encode(Some(id), [b"retry: ", millis(retry).as_bytes(), b"\ndata: \n\n"])
}

/// Encodes a bookmark: id and empty data.
pub(crate) fn bookmark(id: EventId) -> Bytes {
    encode(Some(id), [b"data: \n\n"])
}

/// Puts a `retry` line into a frame, for versions that get no block of its own for it, and for the last bookmark
/// before a planned close.
pub(crate) fn with_retry(frame: &[u8], retry: Duration) -> Bytes {
    encode(None, [b"retry: ", millis(retry).as_bytes(), b"\n", frame])
}

/// Encodes a message that is one line of JSON, without an id.
pub(crate) fn message(line: &[u8]) -> Bytes {
    encode(None, [b"event: message\ndata: ", line, b"\n\n"])
}

/// Encodes the event that tells a client of HTTP+SSE where to POST (MCP 2024-11-05, Transports, HTTP with SSE). Relative, so
/// that it holds behind any proxy. `session` is visible ASCII that needs no escape.
pub(crate) fn endpoint(session: &str) -> Bytes {
    encode(
        None,
        [
            b"event: endpoint\ndata: /messages?session=",
            session.as_bytes(),
            b"\n\n",
        ],
    )
}

/// At least one millisecond: with 0 some clients reconnect in a tight loop, others take their own default.
fn millis(retry: Duration) -> Digits {
    Digits::new(u64::try_from(retry.as_millis()).unwrap_or(u64::MAX).max(1))
}

/// Writes the id line and `rest` into a buffer of exactly their size: this runs once per change and spelling, and a
/// `Bytes` from a full buffer needs no second allocation until it is shared.
fn encode<const N: usize>(id: Option<EventId>, rest: [&[u8]; N]) -> Bytes {
    let digits = id.map(|id| Digits::new(id.get()));
    let id_line: [&[u8]; 3] = match &digits {
        Some(digits) => [b"id: ", digits.as_bytes(), b"\n"],
        None => [b"", b"", b""],
    };
    let parts = || id_line.iter().chain(&rest);
    let mut frame = Vec::with_capacity(parts().map(|part| part.len()).sum());
    parts().for_each(|part| frame.extend_from_slice(part));
    Bytes::from(frame)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{any, proptest};
    use serde_json::{Value, json};

    use super::super::event_id::{EventId, Slot};
    use super::{
        COMMENT, EncodedUri, ListKind, OPENED, bookmark, list_changed, opening, updated, with_retry,
    };

    fn check(frame: &[u8], expected: &str) {
        assert_eq!(std::str::from_utf8(frame), Ok(expected));
    }

    #[test]
    fn frames_are_these_bytes() {
        let id = EventId::new(2, Slot::Record);
        let uri = EncodedUri::new("feed+rest://h/Item/\"7\"");
        let data = r#"data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"feed+rest://h/Item/\"7\""}}"#;
        check(
            &updated(Some(id), &uri),
            &format!("id: 131073\nevent: message\n{data}\n\n"),
        );
        check(&updated(None, &uri), &format!("event: message\n{data}\n\n"));
        check(
            &list_changed(None, ListKind::Tools),
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
        );
        check(
            &opening(id, Duration::from_millis(1_234)),
            "id: 131073\nretry: 1234\ndata: \n\n",
        );
        check(&bookmark(id), "id: 131073\ndata: \n\n");
        check(
            &with_retry(&bookmark(id), Duration::ZERO),
            "retry: 1\nid: 131073\ndata: \n\n",
        );
        check(&with_retry(b"", Duration::MAX), "retry: 18446744073709551615\n");
    }

    #[test]
    fn a_list_notice_names_its_list() {
        let slots = [
            Slot::ToolsListChanged,
            Slot::ResourcesListChanged,
            Slot::PromptsListChanged,
        ];
        for ((kind, slot), list) in
            ListKind::ALL
                .into_iter()
                .zip(slots)
                .zip(["tools", "resources", "prompts"])
        {
            let id = EventId::new(1, slot);
            let events = read_events(&list_changed(Some(id), kind));
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].id, Some(id.to_string()));
            let data: Value = serde_json::from_str(&events[0].data).unwrap();
            assert_eq!(
                data,
                json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed")})
            );
        }
    }

    #[test]
    fn a_comment_has_no_blank_line_behind_it() {
        for comment in [COMMENT, OPENED] {
            assert!(comment.starts_with(b":") && comment.ends_with(b"\n"));
            assert_eq!(comment.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
    }

    /// One block of an event stream, whether a client would dispatch it or not.
    #[derive(Debug, Default, PartialEq)]
    struct Event {
        id: Option<String>,
        event: String,
        data: String,
        retry: Option<String>,
    }

    /// Reads a stream as the HTML standard says, but with lines cut wherever some client library cuts them.
    fn read_events(bytes: &[u8]) -> Vec<Event> {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut events = Vec::new();
        let mut event = Event::default();
        for line in text.split(|c: char| c.is_control() || c == '\u{2028}' || c == '\u{2029}') {
            if line.is_empty() {
                events.push(std::mem::take(&mut event));
                continue;
            }
            match line.split_once(": ").unwrap() {
                ("", _) => {}
                ("id", value) => event.id = Some(value.to_owned()),
                ("event", value) => event.event = value.to_owned(),
                ("data", value) => event.data.push_str(value),
                ("retry", value) => event.retry = Some(value.to_owned()),
                (other, _) => panic!("{other:?} in {text:?}"),
            }
        }
        // Behind the last line feed stands one more, empty line: no blank one.
        assert_eq!(
            events.pop(),
            Some(Event::default()),
            "the last frame is not ended"
        );
        events
    }

    proptest! {
        #[test]
        fn any_uri_is_one_event_that_reads_back(uri: String, number: u64, has_id: bool, millis in 1u64..100_000) {
            let id = has_id.then_some(EventId::from_u64(number));
            let frame = updated(id, &EncodedUri::new(&uri));
            let bookmark = bookmark(EventId::from_u64(number));
            let retried = with_retry(&frame, Duration::from_millis(millis));
            let stream = [OPENED, &frame, COMMENT, &bookmark, COMMENT, COMMENT, &retried].concat();
            let notice = |retry: Option<u64>| {
                let data = json!({
                    "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri},
                });
                (id.map(|id| id.to_string()), "message".to_owned(), data, retry.map(|retry| retry.to_string()))
            };
            let expected = [notice(None), (Some(number.to_string()), String::new(), Value::Null, None), notice(Some(millis))];
            let actual = read_events(&stream).into_iter().map(|event| {
                let data = serde_json::from_str(&event.data).unwrap_or(Value::Null);
                (event.id, event.event, data, event.retry)
            });
            assert_eq!(actual.collect::<Vec<_>>(), expected);
        }

        #[test]
        fn a_frame_has_its_exact_size(uri in ".*", number in any::<u64>()) {
            let frame = updated(Some(EventId::from_u64(number)), &EncodedUri::new(&uri));
            let length = frame.len();
            // Only a buffer that was full gives itself back without a copy.
            assert_eq!(frame.try_into_mut().map(|frame| frame.capacity()), Ok(length));
        }
    }
}
