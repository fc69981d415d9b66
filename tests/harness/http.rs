//! A plain HTTP/1.1 client on a socket: sends what a test says, byte for byte, and is strict about the answer's framing.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;

/// A request as it goes out. `Host` and `Content-Length` are filled in unless the test gave them.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Request {
        Request {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn get(target: &str) -> Request {
        Request::new("GET", target)
    }

    /// A REST write of one record.
    pub fn put(target: &str, record: &str) -> Request {
        Request::new("PUT", target)
            .header("Content-Type", "application/json")
            .body(record)
    }

    /// A POST to the MCP endpoint as clients send it.
    pub fn mcp(body: impl AsRef<[u8]>) -> Request {
        Request::new("POST", "/mcp")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body)
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Request {
        self.headers.push((name.into(), value.as_ref().into()));
        self
    }

    /// Replaces a header, or takes it away.
    pub fn with(mut self, name: &str, value: Option<&str>) -> Request {
        self.headers
            .retain(|(present, _)| !present.eq_ignore_ascii_case(name));
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().into();
        self
    }

    /// Sends it on a connection of its own and reads the whole answer.
    pub fn send(&self, address: SocketAddr) -> Answer {
        Connection::open(address).send(self)
    }

    /// Sends it on a connection of its own and reads the head of the answer only.
    pub fn open(&self, address: SocketAddr) -> (Head, Body) {
        self.try_open(address).unwrap_or_else(|how| panic!("{how}"))
    }

    /// As `open`, for a server that may be away.
    pub fn try_open(&self, address: SocketAddr) -> Result<(Head, Body), String> {
        let mut connection = Connection::try_open(address)?;
        connection.write(self);
        connection.try_read_head(&self.method, PATIENCE)
    }

    pub(super) fn encode(&self, address: SocketAddr) -> Vec<u8> {
        let has = |name: &str| {
            self.headers
                .iter()
                .any(|(present, _)| present.eq_ignore_ascii_case(name))
        };
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if !has("host") {
            bytes.extend(format!("Host: {address}\r\n").bytes());
        }
        if !has("content-length")
            && !has("transfer-encoding")
            && (!self.body.is_empty() || self.method == "POST")
        {
            bytes.extend(format!("Content-Length: {}\r\n", self.body.len()).bytes());
        }
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

/// A connection on which requests follow each other.
pub struct Connection {
    socket: TcpStream,
    address: SocketAddr,
    // Read from the socket, not yet consumed.
    unread: Vec<u8>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Connection {
        Connection::try_open(address).unwrap_or_else(|how| panic!("{how}"))
    }

    fn try_open(address: SocketAddr) -> Result<Connection, String> {
        let socket = TcpStream::connect_timeout(&address, PATIENCE)
            .map_err(|error| format!("cannot connect to {address}: {error}"))?;
        socket.set_nodelay(true).expect("a socket option");
        socket.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        Ok(Connection {
            socket,
            address,
            unread: Vec::new(),
        })
    }

    /// Sends a request and reads the whole answer; the connection can go on.
    pub fn send(&mut self, request: &Request) -> Answer {
        self.write(request);
        self.read(&request.method)
    }

    /// Sends a request without waiting for its answer.
    pub fn write(&mut self, request: &Request) {
        self.write_bytes(&request.encode(self.address));
    }

    /// Sends raw bytes. A server may answer and close before it has read them all, so a failure shows in the answer.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let _ = self.try_write_bytes(bytes);
    }

    /// Sends raw bytes, all of them or an error: as a client does that reads the answer only after it.
    pub fn try_write_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Reads the answer to a request that was written before.
    pub fn read(&mut self, method: &str) -> Answer {
        let (head, mut body) = self.read_head(method, PATIENCE);
        let mut bytes = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match body.read(deadline) {
                Part::Bytes(part) => bytes.extend(part),
                Part::Ended => break,
                Part::Broken(how) => panic!("the body of {head:?} broke off: {how}"),
                Part::Late => panic!("the body of {head:?} did not end in {PATIENCE:?}"),
            }
        }
        self.unread = body.connection.unread;
        Answer::new(head, bytes)
    }

    /// Reads the head of an answer.
    pub fn read_head(&mut self, method: &str, patience: Duration) -> (Head, Body) {
        self.try_read_head(method, patience)
            .unwrap_or_else(|how| panic!("{how}"))
    }

    fn try_read_head(&mut self, method: &str, patience: Duration) -> Result<(Head, Body), String> {
        let deadline = Instant::now() + patience;
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            match self.fill(deadline) {
                Fill::Some => {}
                Fill::Late => return Err(format!("no answer from {} in {patience:?}", self.address)),
                Fill::End(how) => {
                    return Err(format!(
                        "no answer from {}: {how}, after {:?}",
                        self.address,
                        self.text()
                    ));
                }
            }
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let head = Head::parse(&head);
        let framing = Framing::of(method, &head);
        let socket = self.socket.try_clone().expect("another handle of the socket");
        let connection = Connection {
            socket,
            address: self.address,
            unread: std::mem::take(&mut self.unread),
        };
        Ok((head, Body { connection, framing }))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Reads what is there, waiting until the deadline for the first of it.
    fn fill(&mut self, deadline: Instant) -> Fill {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Fill::Late;
        }
        self.socket.set_read_timeout(Some(left)).expect("a socket option");
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer) {
            Ok(0) => Fill::End("the connection was closed".into()),
            Ok(count) => {
                self.unread.extend(&buffer[..count]);
                Fill::Some
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Fill::Late,
            Err(error) => Fill::End(error.to_string()),
        }
    }
}

enum Fill {
    Some,
    Late,
    End(String),
}

/// Status line and headers of an answer; header names in lower case.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(super) fn parse(bytes: &[u8]) -> Head {
        let text = String::from_utf8(bytes.to_vec()).expect("an ASCII head");
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.strip_prefix("HTTP/1.1 "))
            .and_then(|rest| rest.get(..3));
        let status = status
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("no status line in {text:?}"));
        let headers = lines.take_while(|line| !line.is_empty()).map(|line| {
            let (name, value) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("header line {line:?}"));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Head {
            status,
            headers: headers.collect(),
        }
    }

    /// Returns a header's value; several lines of one name are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        find_header(&self.headers, name)
    }
}

/// A whole answer.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn new(head: Head, body: Vec<u8>) -> Answer {
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    /// Returns a header's value; several lines of one name are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        find_header(&self.headers, name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body, which must be JSON and say so.
    pub fn json(&self) -> Value {
        assert_eq!(
            self.header("content-type").as_deref(),
            Some("application/json"),
            "{self:?}"
        );
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Returns the code of the JSON-RPC error in the body.
    pub fn error_code(&self) -> i64 {
        self.json()["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("no JSON-RPC error in {self:?}"))
    }

    /// Returns the message of the JSON-RPC error in the body.
    pub fn error_message(&self) -> String {
        self.json()["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("no JSON-RPC error in {self:?}"))
            .to_owned()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?} {:?}", self.status, self.headers, self.text())
    }
}

fn find_header(headers: &[(String, String)], name: &str) -> Option<String> {
    let values: Vec<&str> = headers
        .iter()
        .filter(|(present, _)| present.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// The body of an answer, read as it comes.
pub struct Body {
    connection: Connection,
    framing: Framing,
}

/// What came of a body.
#[derive(Debug)]
pub enum Part {
    Bytes(Vec<u8>),
    /// It ended as its framing says.
    Ended,
    /// The connection ended before the body did.
    Broken(String),
    /// The deadline passed.
    Late,
}

/// How the end of a body is known.
pub(super) enum Framing {
    Length(usize),
    Chunked(Chunks),
}

impl Framing {
    pub(super) fn of(method: &str, head: &Head) -> Framing {
        if method == "HEAD" || head.status == 204 || head.status == 304 {
            return Framing::Length(0);
        }
        match (head.header("transfer-encoding"), head.header("content-length")) {
            (Some(coding), None) if coding == "chunked" => Framing::Chunked(Chunks::default()),
            (None, Some(length)) => Framing::Length(length.parse().expect("a content length")),
            _ => panic!("neither a length nor chunks, or both: {head:?}"),
        }
    }

    /// Takes what is there of the body; `None` if that needs more bytes.
    pub(super) fn take(&mut self, unread: &mut Vec<u8>) -> Option<Part> {
        match self {
            Framing::Length(0) => Some(Part::Ended),
            Framing::Length(left) if !unread.is_empty() => {
                let part: Vec<u8> = unread.drain(..unread.len().min(*left)).collect();
                *left -= part.len();
                Some(Part::Bytes(part))
            }
            Framing::Length(_) => None,
            Framing::Chunked(chunks) => {
                let mut part = Vec::new();
                let consumed = chunks.decode(unread, &mut part);
                unread.drain(..consumed);
                match (part.is_empty(), chunks.ended()) {
                    (false, _) => Some(Part::Bytes(part)),
                    (true, true) => Some(Part::Ended),
                    (true, false) => None,
                }
            }
        }
    }
}

impl Body {
    /// Returns the next bytes as soon as there are any.
    pub fn read(&mut self, deadline: Instant) -> Part {
        loop {
            if let Some(part) = self.framing.take(&mut self.connection.unread) {
                return part;
            }
            match self.connection.fill(deadline) {
                Fill::Some => {}
                Fill::Late => return Part::Late,
                Fill::End(how) => return Part::Broken(how),
            }
        }
    }

    /// Closes the connection, as a client does that goes away.
    pub fn close(self) {
        let _ = self.connection.socket.shutdown(Shutdown::Both);
    }

    /// Returns the socket of a chunked body, the decoder where it stands, and the bytes that it has not seen yet.
    pub fn into_chunked(self) -> (TcpStream, Chunks, Vec<u8>) {
        match self.framing {
            Framing::Chunked(chunks) => (self.connection.socket, chunks, self.connection.unread),
            Framing::Length(_) => panic!("the body has a length"),
        }
    }
}

/// Decodes a chunked body piece by piece.
#[derive(Debug, Default)]
pub struct Chunks {
    state: ChunkState,
}

#[derive(Debug, Default)]
enum ChunkState {
    /// Before the line with the next chunk's size.
    #[default]
    Size,
    /// Within a chunk.
    Data(usize),
    /// Before the line end after a chunk.
    LineEnd,
    /// Before the empty line after the last chunk.
    Last,
    Ended,
}

impl Chunks {
    /// Appends what `input` holds of the body to `output` and returns how many bytes of `input` were consumed.
    pub fn decode(&mut self, input: &[u8], output: &mut Vec<u8>) -> usize {
        let mut rest = input;
        loop {
            match self.state {
                ChunkState::Size => {
                    let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else {
                        break;
                    };
                    let line = std::str::from_utf8(&rest[..end]).unwrap_or("?");
                    let size =
                        usize::from_str_radix(line, 16).unwrap_or_else(|_| panic!("chunk size {line:?}"));
                    rest = &rest[end + 2..];
                    self.state = if size == 0 {
                        ChunkState::Last
                    } else {
                        ChunkState::Data(size)
                    };
                }
                ChunkState::Data(left) => {
                    let (part, after) = rest.split_at(rest.len().min(left));
                    output.extend(part);
                    rest = after;
                    if part.len() < left {
                        self.state = ChunkState::Data(left - part.len());
                        break;
                    }
                    self.state = ChunkState::LineEnd;
                }
                ChunkState::LineEnd | ChunkState::Last => {
                    if rest.len() < 2 {
                        break;
                    }
                    assert_eq!(&rest[..2], b"\r\n", "no line end after a chunk");
                    rest = &rest[2..];
                    let last = matches!(self.state, ChunkState::Last);
                    self.state = if last { ChunkState::Ended } else { ChunkState::Size };
                }
                ChunkState::Ended => break,
            }
        }
        input.len() - rest.len()
    }

    /// Whether the last chunk was seen.
    pub fn ended(&self) -> bool {
        matches!(self.state, ChunkState::Ended)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::time::{Duration, Instant};

    use super::{Chunks, Connection, Part, Request};

    /// Answers each connection's first request with these bytes and closes.
    fn serve_once(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4096]).unwrap();
            socket.write_all(answer).unwrap();
        });
        address
    }

    #[test]
    fn chunks_are_decoded_however_they_are_cut() {
        let encoded = b"5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n";
        for cut in 0..encoded.len() {
            let (mut chunks, mut output) = (Chunks::default(), Vec::new());
            let consumed = chunks.decode(&encoded[..cut], &mut output);
            chunks.decode(&encoded[consumed..], &mut output);
            assert_eq!(
                (output.as_slice(), chunks.ended()),
                (b"hello 0123456789".as_slice(), true),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn an_answer_is_read_by_its_length_and_the_next_one_after_it() {
        let address = serve_once(
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        );
        let mut connection = Connection::open(address);
        assert_eq!(connection.send(&Request::get("/")).status, 202);
        assert_eq!(connection.read("GET").json(), serde_json::json!({}));
    }

    #[test]
    fn a_body_that_breaks_off_is_not_taken_for_one_that_ended() {
        let deadline = Instant::now() + Duration::from_secs(5);
        let broken = serve_once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
        let (_, mut body) = Request::get("/").open(broken);
        assert!(matches!(body.read(deadline), Part::Bytes(bytes) if bytes == b"ab"));
        assert!(matches!(body.read(deadline), Part::Broken(_)));

        let ended = serve_once(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        let (_, mut body) = Request::get("/").open(ended);
        assert!(matches!(body.read(deadline), Part::Ended));
    }
}
