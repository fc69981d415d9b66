//! A client of the era without sessions (MCP 2026-07-28): every request says all that there is to know.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::event_stream::{EventStream, Frame};
use super::http::{Answer, Request};

pub const VERSION: &str = "2026-07-28";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
pub const CURSOR: &str = "dev.tidegate/cursor";
pub const RESUMED: &str = "dev.tidegate/resumed";

/// Who asks: an address, nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Modern {
    pub address: SocketAddr,
}

/// The `_meta` that every request needs.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    })
}

/// The POST of a request under this id (JSON), with the headers that mirror its body.
pub fn request(id: &Value, method: &str, mut params: Value) -> Request {
    if params.get("_meta").is_none() {
        params["_meta"] = meta();
    }
    let name = match method {
        "resources/read" => params["uri"].as_str(),
        "tools/call" | "prompts/get" => params["name"].as_str(),
        _ => None,
    };
    let request =
        Request::mcp(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", method);
    match name {
        Some(name) => request.header("Mcp-Name", name),
        None => request,
    }
}

impl Modern {
    pub fn at(address: SocketAddr) -> Modern {
        Modern { address }
    }

    pub fn send(&self, method: &str, params: Value) -> Answer {
        request(&json!(1), method, params).send(self.address)
    }

    /// Calls a method and returns its result, which must be complete and name the server.
    pub fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.send(method, params);
        assert_eq!(answer.status, 200, "{method}: {answer:?}");
        assert_eq!(answer.header("mcp-session-id"), None, "{answer:?}");
        let result = answer.json()["result"].clone();
        assert_eq!(result["resultType"], "complete", "{answer:?}");
        let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "tidegate", "{answer:?}");
        result
    }

    /// Reads a resource: its text, and the cursor of the state that it is of.
    pub fn read(&self, uri: &str) -> (String, String) {
        let result = self.result("resources/read", json!({"uri": uri}));
        let text = result["contents"][0]["text"].as_str().expect("a text").to_owned();
        (
            text,
            result["_meta"][CURSOR].as_str().expect("a cursor").to_owned(),
        )
    }

    /// Opens a listen on these URIs under this id (JSON); its acknowledgement is not read yet.
    pub fn open(&self, id: &Value, uris: &[&str], resume_from: Option<&str>) -> EventStream {
        self.open_filter(id, json!({"resourceSubscriptions": uris}), resume_from)
    }

    /// As `open`, with a whole filter.
    pub fn open_filter(&self, id: &Value, filter: Value, resume_from: Option<&str>) -> EventStream {
        EventStream::of_listen(self.request(id, filter, resume_from).open(self.address))
    }

    /// The POST of a listen.
    pub fn request(&self, id: &Value, filter: Value, resume_from: Option<&str>) -> Request {
        let mut meta = meta();
        if let Some(cursor) = resume_from {
            meta["dev.tidegate/resumeFrom"] = cursor.into();
        }
        request(
            id,
            "subscriptions/listen",
            json!({"notifications": filter, "_meta": meta}),
        )
    }

    /// Opens a listen and reads its acknowledgement.
    pub fn listen(&self, uris: &[&str]) -> Listening {
        Listening::of(self.open(&json!(1), uris, None), json!(1))
    }

    /// Opens a listen that goes on after a cursor and reads its acknowledgement.
    pub fn resume(&self, uris: &[&str], cursor: &str) -> Listening {
        Listening::of(self.open(&json!(1), uris, Some(cursor)), json!(1))
    }

    /// The URI of a record or table as this gateway spells it.
    pub fn uri(&self, path: &str) -> String {
        format!("feed+rest://{}/{path}", self.address)
    }
}

/// A listen that was acknowledged.
pub struct Listening {
    pub stream: EventStream,
    /// The filter that was acknowledged.
    pub filter: Value,
    pub resumed: bool,
    /// The newest cursor.
    pub cursor: String,
    id: Value,
}

impl Listening {
    /// Reads the acknowledgement, which must come first.
    pub fn of(mut stream: EventStream, id: Value) -> Listening {
        let message = stream.frame().message();
        Listening::acknowledged(stream, &message, id)
    }

    /// As `of`, for an acknowledgement that was read already.
    pub fn acknowledged(stream: EventStream, message: &Value, id: Value) -> Listening {
        assert_eq!(
            message["method"], "notifications/subscriptions/acknowledged",
            "{message}"
        );
        let meta = &message["params"]["_meta"];
        assert_eq!(meta[SUBSCRIPTION_ID], id, "{message}");
        Listening {
            filter: message["params"]["notifications"].clone(),
            resumed: meta[RESUMED].as_bool().expect("resumed or not"),
            cursor: meta[CURSOR].as_str().expect("a cursor").to_owned(),
            stream,
            id,
        }
    }

    /// Reads the next message, which must carry the id; its cursor, if it has one, is the newest then.
    pub fn message(&mut self) -> Value {
        let message = self.stream.frame().message();
        self.take(&message);
        message
    }

    /// As `message`, for a frame that was read already.
    pub fn take(&mut self, message: &Value) {
        let carrier = if message.get("result").is_some() {
            &message["result"]
        } else {
            &message["params"]
        };
        assert_eq!(carrier["_meta"][SUBSCRIPTION_ID], self.id, "{message}");
        if let Some(cursor) = carrier["_meta"][CURSOR].as_str() {
            self.cursor = cursor.to_owned();
        }
    }

    /// Reads the next message, which must be an update, and returns its URI.
    pub fn updated(&mut self) -> String {
        let message = self.message();
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        message["params"]["uri"].as_str().expect("a uri").to_owned()
    }

    /// Reads to the clean end and returns the messages that came.
    pub fn ends(mut self) -> Vec<Value> {
        let frames: Vec<Frame> = self.stream.ends();
        frames.iter().map(Frame::message).collect()
    }

    /// Goes away.
    pub fn close(self) {
        self.stream.close();
    }
}

/// Returns the event id in a cursor, to compare it with the ids of a session's stream: 17 bytes of Base64, the last 8 of them.
pub fn cursor_id(cursor: &str) -> u64 {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for character in cursor.chars() {
        let value = ALPHABET
            .find(character)
            .unwrap_or_else(|| panic!("no Base64: {cursor}"));
        bits = bits << 6 | u32::try_from(value).expect("six bits");
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    let (_, id) = bytes.split_at(bytes.len() - 8);
    u64::from_be_bytes(id.try_into().expect("eight bytes"))
}
