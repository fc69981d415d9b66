//! A client of the HTTP+SSE transport of 2024-11-05: it POSTs to the uri that its stream names, and reads every answer there.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::event_stream::EventStream;
use super::http::{Answer, Request};

/// A client with its one stream.
pub struct HttpSseClient {
    pub address: SocketAddr,
    pub stream: EventStream,
    /// The uri that the stream named.
    pub endpoint: String,
    pub session: String,
    next_request: u64,
}

impl HttpSseClient {
    /// Opens the stream of a new session.
    pub fn open(address: SocketAddr) -> HttpSseClient {
        HttpSseClient::read_endpoint(address, &stream_request("/sse", None), None)
    }

    /// Opens the stream of a session again, on whichever instance, after this id.
    pub fn reopen(address: SocketAddr, session: &str, last_id: Option<u64>) -> HttpSseClient {
        let request = stream_request(&format!("/sse?session={session}"), last_id);
        HttpSseClient::read_endpoint(address, &request, last_id)
    }

    fn read_endpoint(address: SocketAddr, request: &Request, last_id: Option<u64>) -> HttpSseClient {
        let mut stream = EventStream::new(request.open(address), last_id);
        let frame = stream.frame();
        assert_eq!(frame.event.as_deref(), Some("endpoint"), "what comes first");
        assert!(frame.id.is_none(), "{frame:?}");
        assert!(frame.retry.is_some(), "{frame:?}");
        let endpoint = frame.data.unwrap_or_default();
        let session = endpoint
            .strip_prefix("/messages?session=")
            .unwrap_or_else(|| panic!("an endpoint of another form: {endpoint}"))
            .to_owned();
        HttpSseClient {
            address,
            stream,
            endpoint,
            session,
            next_request: 1,
        }
    }

    /// POSTs a body to an instance, and returns the response, which is not the answer.
    pub fn post_at(&self, address: SocketAddr, body: impl AsRef<[u8]>) -> Answer {
        Request::new("POST", &self.endpoint)
            .header("Content-Type", "application/json")
            .body(body)
            .send(address)
    }

    /// Calls a method at an instance; returns the answer from the stream, which must come next.
    pub fn call_at(&mut self, address: SocketAddr, method: &str, params: Value) -> Value {
        let id = self.next_request;
        self.next_request += 1;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post_at(address, body.to_string());
        assert_eq!(
            (response.status, response.text().as_str()),
            (202, ""),
            "{method}: {response:?}"
        );
        let frame = self.stream.frame();
        assert_eq!(frame.id, None, "an answer is no cursor");
        let answer = frame.message();
        assert_eq!(answer["id"], id, "{method}: {answer}");
        answer
    }

    /// Calls a method where the stream is, and returns its result.
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call_at(self.address, method, params);
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Says hello in this version, and returns the result.
    pub fn initialize(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"},
        });
        let result = self.result("initialize", params);
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let response = self.post_at(self.address, initialized);
        assert_eq!(response.status, 202, "{response:?}");
        result
    }

    pub fn subscribe(&mut self, uri: &str) {
        assert_eq!(self.result("resources/subscribe", json!({"uri": uri})), json!({}));
    }
}

fn stream_request(target: &str, last_id: Option<u64>) -> Request {
    let request = Request::get(target).header("Accept", "text/event-stream");
    match last_id {
        Some(id) => request.header("Last-Event-ID", id.to_string()),
        None => request,
    }
}
