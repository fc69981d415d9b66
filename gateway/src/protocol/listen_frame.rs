//! The frames of a `subscriptions/listen` answer (MCP 2026-07-28, Subscriptions; schema).
//!
//! Each is one event of `data:` alone. Of the frames that a change causes only the subscription id differs from one listen
//! to the next, so they are made of a head that never changes, the id, and a tail that is encoded once per change.

use bytes::Bytes;
use serde_json::json;

use super::complete;
use super::cursor::{CURSOR_KEY, Cursor, FeedIdentity, RESUMED_KEY};
use super::event_id::EventId;
use super::frame::{EncodedUri, ListKind};
use super::line;
use super::listen::ListFlags;
use super::message::RequestId;

const UPDATED_HEAD: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\
    \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";

const TOOLS_HEAD: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\
    \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";

const RESOURCES_HEAD: &[u8] =
    b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\",\
    \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";

const PROMPTS_HEAD: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\",\
    \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";

const ACKNOWLEDGED_HEAD: &[u8] =
    b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\
    \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";

/// The id of a listen as it stands in each of its frames: JSON of the type that the client chose.
///
/// Invariant: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionTag(Box<[u8]>);

impl SubscriptionTag {
    /// Makes the tag of the listen that came with this id.
    pub(crate) fn new(id: &RequestId) -> SubscriptionTag {
        let mut tag = Vec::with_capacity(id.as_raw().len());
        line::push_json(&mut tag, id.as_raw());
        SubscriptionTag(tag.into())
    }

    /// Returns the JSON.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// `notifications/resources/updated`
    Updated,
    /// A `list_changed`
    List(ListKind),
}

impl NoticeKind {
    /// Returns what the frame with this id is about.
    pub(crate) const fn of(id: EventId) -> NoticeKind {
        match id.slot() {
            2 => NoticeKind::List(ListKind::Tools),
            3 => NoticeKind::List(ListKind::Resources),
            4 => NoticeKind::List(ListKind::Prompts),
            _ => NoticeKind::Updated,
        }
    }

    /// Returns the head of a notice's frame, up to the subscription id.
    pub(crate) const fn head(self) -> &'static [u8] {
        match self {
            NoticeKind::Updated => UPDATED_HEAD,
            NoticeKind::List(ListKind::Tools) => TOOLS_HEAD,
            NoticeKind::List(ListKind::Resources) => RESOURCES_HEAD,
            NoticeKind::List(ListKind::Prompts) => PROMPTS_HEAD,
        }
    }
}

/// Encodes what follows the subscription id in `notifications/resources/updated`.
pub(crate) fn updated_tail(cursor: Cursor, uri: &EncodedUri) -> Bytes {
    let cursor = cursor.encode();
    join(&[
        b",\"",
        CURSOR_KEY.as_bytes(),
        b"\":\"",
        cursor.as_bytes(),
        b"\"},\"uri\":\"",
        uri.as_bytes(),
        b"\"}}\n\n",
    ])
}

/// Encodes what follows the subscription id in a `list_changed`.
pub(crate) fn list_changed_tail(cursor: Cursor) -> Bytes {
    let cursor = cursor.encode();
    join(&[
        b",\"",
        CURSOR_KEY.as_bytes(),
        b"\":\"",
        cursor.as_bytes(),
        b"\"}}}\n\n",
    ])
}

/// Puts a notice's frame together.
pub(crate) fn notice(kind: NoticeKind, tag: &SubscriptionTag, tail: &[u8]) -> Bytes {
    join(&[kind.head(), tag.as_bytes(), tail])
}

/// What an acknowledgement says: only what will be delivered.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledgement<'a> {
    /// The lists that changes are told of.
    pub(crate) lists: ListFlags,
    /// The URIs, in the spelling of their notices; without any there is no such member.
    pub(crate) uris: &'a [String],
    /// Where to go on from if the connection breaks right behind this frame.
    pub(crate) cursor: Cursor,
    /// Whether the listen goes on where its client was.
    pub(crate) resumed: bool,
}

/// Encodes `notifications/subscriptions/acknowledged`.
pub(crate) fn acknowledged(tag: &SubscriptionTag, acknowledgement: &Acknowledgement<'_>) -> Bytes {
    let mut filter = serde_json::Map::new();
    let ListFlags {
        tools,
        prompts,
        resources,
    } = acknowledgement.lists;
    for (name, wanted) in [
        ("toolsListChanged", tools),
        ("promptsListChanged", prompts),
        ("resourcesListChanged", resources),
    ] {
        if wanted {
            filter.insert(name.to_owned(), true.into());
        }
    }
    if !acknowledgement.uris.is_empty() {
        filter.insert("resourceSubscriptions".to_owned(), acknowledgement.uris.into());
    }
    let mut frame = [ACKNOWLEDGED_HEAD, tag.as_bytes()].concat();
    let rest = format!(
        ",{}:{},{}:{}}},\"notifications\":{}}}}}",
        json!(CURSOR_KEY),
        json!(acknowledgement.cursor.encode()),
        json!(RESUMED_KEY),
        acknowledgement.resumed,
        serde_json::Value::Object(filter),
    );
    line::push_json(&mut frame, &rest);
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// Encodes the result that ends a listen as planned; `id` is the last frame that was sent, where it is known that
/// everything up to it was; `server` is who the server is, as JSON.
pub(crate) fn closed(tag: &SubscriptionTag, server: &str, feed: FeedIdentity, id: Option<EventId>) -> Bytes {
    let mut frame = b"data: {\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    frame.extend_from_slice(tag.as_bytes());
    frame.extend_from_slice(
        b",\"result\":{\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":",
    );
    frame.extend_from_slice(tag.as_bytes());
    frame.push(b',');
    complete::push_server_info(&mut frame, server);
    if let Some(id) = id {
        let cursor = Cursor { feed, id };
        frame.extend_from_slice(format!(",{}:{}", json!(CURSOR_KEY), json!(cursor.encode())).as_bytes());
    }
    frame.extend_from_slice(b"}}}\n\n");
    frame.into()
}

/// Encodes the `notifications/cancelled` that ends a listen for cause; `reason` is one word of ours.
pub(crate) fn cancelled(tag: &SubscriptionTag, reason: &'static str) -> Bytes {
    const BEFORE_TAG: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
        \"params\":{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":";
    join(&[
        BEFORE_TAG,
        tag.as_bytes(),
        b"},\"requestId\":",
        tag.as_bytes(),
        b",\"reason\":\"",
        reason.as_bytes(),
        b"\"}}\n\n",
    ])
}

/// Writes the parts into a buffer of exactly their size.
fn join(parts: &[&[u8]]) -> Bytes {
    let mut frame = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    Bytes::from(frame)
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::super::cursor::{Cursor, FeedIdentity};
    use super::super::event_id::{EventId, Slot};
    use super::super::frame::{EncodedUri, ListKind};
    use super::super::listen::ListFlags;
    use super::super::message::RequestId;
    use super::*;

    fn tag(raw: &str) -> SubscriptionTag {
        SubscriptionTag::new(&RequestId::read(&serde_json::from_str::<Box<RawValue>>(raw).unwrap()).unwrap())
    }

    fn cursor() -> Cursor {
        Cursor {
            feed: FeedIdentity::of_store("s"),
            id: EventId::new(7, Slot::Record),
        }
    }

    /// Checks that a frame is one event of one data line, and returns its message.
    fn message(frame: &[u8]) -> Value {
        let text = std::str::from_utf8(frame).unwrap();
        let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
        assert!(
            !data.contains(|c: char| c.is_control() || c == '\u{2028}'),
            "{text}"
        );
        serde_json::from_str(data).unwrap()
    }

    #[test]
    fn b_6_5_every_frame_carries_the_subscription_id_in_its_own_type() {
        for raw in ["7", "\"7\"", "\"a\u{2028}b\"", "-9223372036854775808"] {
            let (tag, id) = (tag(raw), serde_json::from_str::<Value>(raw).unwrap());
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id, "dev.tidegate/cursor": cursor().encode()});

            let uri = EncodedUri::new("feed+rest://h/Item/\"7\"");
            let updated = notice(NoticeKind::Updated, &tag, &updated_tail(cursor(), &uri));
            let expected = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"_meta": meta, "uri": "feed+rest://h/Item/\"7\""}});
            assert_eq!(message(&updated), expected);

            for (kind, list) in [
                (ListKind::Tools, "tools"),
                (ListKind::Resources, "resources"),
                (ListKind::Prompts, "prompts"),
            ] {
                let changed = notice(NoticeKind::List(kind), &tag, &list_changed_tail(cursor()));
                let method = format!("notifications/{list}/list_changed");
                assert_eq!(
                    message(&changed),
                    json!({"jsonrpc": "2.0", "method": method, "params": {"_meta": meta}})
                );
            }

            let ended = message(&closed(&tag, r#"{"name":"s"}"#, cursor().feed, Some(cursor().id)));
            assert_eq!(ended["id"], id);
            assert_eq!(ended["result"]["resultType"], "complete");
            assert_eq!(
                ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
                id
            );
            assert_eq!(ended["result"]["_meta"]["dev.tidegate/cursor"], cursor().encode());
            let ended = message(&closed(&tag, r#"{"name":"s"}"#, cursor().feed, None));
            assert!(ended["result"]["_meta"].get("dev.tidegate/cursor").is_none());

            let expected = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
                "_meta": {"io.modelcontextprotocol/subscriptionId": id}, "requestId": id, "reason": "slow"}});
            assert_eq!(message(&cancelled(&tag, "slow")), expected);
        }
    }

    #[test]
    fn b_6_4_an_acknowledgement_names_only_what_is_honoured() {
        let check = |lists: ListFlags, uris: &[&str], expected: Value| {
            let uris: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
            let frame = acknowledged(
                &tag("1"),
                &Acknowledgement {
                    lists,
                    uris: &uris,
                    cursor: cursor(),
                    resumed: true,
                },
            );
            let expected = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                "_meta": {
                    "io.modelcontextprotocol/subscriptionId": 1,
                    "dev.tidegate/cursor": cursor().encode(),
                    "dev.tidegate/resumed": true,
                },
                "notifications": expected,
            }});
            assert_eq!(message(&frame), expected);
        };
        check(ListFlags::default(), &[], json!({}));
        let lists = ListFlags {
            tools: true,
            prompts: false,
            resources: true,
        };
        check(
            lists,
            &["a:\u{85}b"],
            json!({
                "toolsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": ["a:\u{85}b"],
            }),
        );
    }
}
