//! A session's client: JSON texts over `http`, with nothing of the gateway's own types.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::event_stream::EventStream;
use super::http::{Answer, Connection, Request};

/// A session as its client sees it. Clones share the session and its request ids.
#[derive(Clone, Debug)]
pub struct Client {
    pub address: SocketAddr,
    pub session: String,
    pub version: String,
    next_request: Arc<AtomicU64>,
}

/// The body of an `initialize` request, with this protocol version as JSON text.
pub fn initialize_body(version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":{version},"capabilities":{{}},"clientInfo":{{"name":"tests","version":"1"}}}}}}"#
    )
}

impl Client {
    /// Opens a session of this version.
    pub fn initialize(address: SocketAddr, version: &str) -> Client {
        let answer = Request::mcp(initialize_body(&format!("{version:?}"))).send(address);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["result"]["protocolVersion"], version, "{answer:?}");
        let session = answer
            .header("mcp-session-id")
            .unwrap_or_else(|| panic!("no session id: {answer:?}"));
        let client = Client {
            address,
            session,
            version: version.into(),
            next_request: Arc::new(AtomicU64::new(1)),
        };
        let answer = client.send(&client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
        assert_eq!(answer.status, 202, "{answer:?}");
        client
    }

    /// The same session through another gateway.
    pub fn on(&self, address: SocketAddr) -> Client {
        Client {
            address,
            ..self.clone()
        }
    }

    /// Adds the session's headers to a request.
    pub fn sign(&self, request: Request) -> Request {
        let request = request.header("Mcp-Session-Id", &self.session);
        // Older clients do not know the header.
        if self.version.as_str() < "2025-06-18" {
            request
        } else {
            request.header("MCP-Protocol-Version", &self.version)
        }
    }

    /// A POST of this body in the session.
    pub fn post(&self, body: impl AsRef<[u8]>) -> Request {
        self.sign(Request::mcp(body))
    }

    pub fn send(&self, request: &Request) -> Answer {
        request.send(self.address)
    }

    /// The POST of a call with an id of its own.
    pub fn call(&self, method: &str, params: &Value) -> Request {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        self.post(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
    }

    /// Calls a method and returns its result.
    pub fn result(&self, method: &str, params: Value) -> Value {
        let answer = self.send(&self.call(method, &params));
        assert_eq!(answer.status, 200, "{method} {params}: {answer:?}");
        let message = answer.json();
        assert!(message.get("result").is_some(), "{method} {params}: {answer:?}");
        message["result"].clone()
    }

    /// Calls a method that must be refused with HTTP 200, and returns code and message.
    pub fn error(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.send(&self.call(method, &params));
        assert_eq!(answer.status, 200, "{method} {params}: {answer:?}");
        (answer.error_code(), answer.error_message())
    }

    pub fn subscribe(&self, uri: &str) {
        assert_eq!(self.result("resources/subscribe", json!({"uri": uri})), json!({}));
    }

    pub fn unsubscribe(&self, uri: &str) {
        assert_eq!(
            self.result("resources/unsubscribe", json!({"uri": uri})),
            json!({})
        );
    }

    /// Reads a record and returns its text as it came.
    pub fn read(&self, uri: &str) -> String {
        let result = self.result("resources/read", json!({"uri": uri}));
        result["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text: {result}"))
            .to_owned()
    }

    /// The GET that opens the stream, resumed from an id where there is one.
    pub fn get(&self, last_event_id: Option<&str>) -> Request {
        let request = self.sign(Request::get("/mcp").header("Accept", "text/event-stream"));
        match last_event_id {
            Some(id) => request.header("Last-Event-ID", id),
            None => request,
        }
    }

    /// Opens the stream from now on; nothing of it is read yet.
    pub fn listen(&self) -> EventStream {
        EventStream::new(self.get(None).open(self.address), None)
    }

    /// Opens the stream and reads its opening block, which a session without subscriptions gets first.
    pub fn listen_opened(&self) -> EventStream {
        let mut stream = self.listen();
        stream.opening();
        stream
    }

    /// Opens the stream after this id.
    pub fn resume(&self, last_id: u64) -> EventStream {
        EventStream::new(
            self.get(Some(&last_id.to_string())).open(self.address),
            Some(last_id),
        )
    }

    /// Ends the session.
    pub fn delete(&self) -> Answer {
        self.send(&self.sign(Request::new("DELETE", "/mcp")))
    }

    /// A connection on which several requests follow each other.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }
}
