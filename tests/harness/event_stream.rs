//! Reads server-sent events as the strictest client library would, and keeps their bytes.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::PATIENCE;
use super::http::{Body, Chunks, Head, Part};

/// One event: the lines up to a blank line.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    /// `None`: there was no data line.
    pub data: Option<String>,
    pub retry: Option<u64>,
    /// The bytes, from the first field to the blank line.
    pub raw: String,
}

impl Frame {
    /// Returns the id, which must be a decimal number in its one form.
    pub fn number(&self) -> u64 {
        let id = self.id.as_deref().unwrap_or_else(|| panic!("no id: {self:?}"));
        let number: u64 = id
            .parse()
            .unwrap_or_else(|_| panic!("not a decimal id: {self:?}"));
        assert_eq!(number.to_string(), id, "an id in another form");
        number
    }

    /// Whether it carries no message, only a position (an opening block, a bookmark).
    pub fn is_position(&self) -> bool {
        self.data.as_deref() == Some("")
    }

    /// Whether it only moves an idle stream's cursor on.
    pub fn is_bookmark(&self) -> bool {
        self.is_position() && self.number() & 0xffff == 0xffff
    }

    /// Returns the JSON-RPC message.
    pub fn message(&self) -> Value {
        let data = self
            .data
            .as_deref()
            .unwrap_or_else(|| panic!("no data: {self:?}"));
        let message: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{self:?}");
        message
    }

    /// Returns the URI, if it says that a resource was updated, and says that only.
    pub fn updated_uri(&self) -> Option<String> {
        let message = self.message();
        (message["method"] == "notifications/resources/updated").then(|| {
            let uri = message["params"]["uri"]
                .as_str()
                .unwrap_or_else(|| panic!("no uri: {self:?}"));
            let expected =
                serde_json::json!({"jsonrpc": "2.0", "method": message["method"], "params": {"uri": uri}});
            assert_eq!(message, expected, "something besides the uri");
            uri.to_owned()
        })
    }
}

/// Cuts a byte stream into frames and comments, and refuses what is not exactly in their form.
///
/// The form is narrower than the standard's: lines end with one line feed, a field is `name: value` (empty data may be
/// `data:`), an event has at most one of each field, comments stand between events, and a blank line ends an event: there
/// is none without, since some clients dispatch an empty event at each.
#[derive(Debug, Default)]
pub struct Parser {
    bytes: Vec<u8>,
    frame: Option<Frame>,
}

/// What a stream consists of.
#[derive(Debug, PartialEq)]
pub enum Item {
    Frame(Frame),
    Comment(String),
}

impl Parser {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the next item, `None` if there is no whole one yet, or what is wrong with it.
    pub fn next(&mut self) -> Result<Option<Item>, String> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).take(end).collect();
            let line = String::from_utf8(line).map_err(|error| format!("not UTF-8: {error}"))?;
            if line.contains(['\r', '\0', '\u{2028}', '\u{2029}']) {
                return Err(format!(
                    "a character that some clients take for a line end: {line:?}"
                ));
            }
            if let Some(item) = self.take_line(&line)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Whether the stream stands between two events.
    fn is_between(&self) -> bool {
        self.frame.is_none() && self.bytes.is_empty()
    }

    fn take_line(&mut self, line: &str) -> Result<Option<Item>, String> {
        if line.is_empty() {
            return match self.frame.take() {
                Some(mut frame) => {
                    frame.raw.push('\n');
                    Ok(Some(Item::Frame(frame)))
                }
                None => Err("a blank line that ends no event".into()),
            };
        }
        if let Some(comment) = line.strip_prefix(':') {
            return match &self.frame {
                None => Ok(Some(Item::Comment(comment.trim().to_owned()))),
                Some(frame) => Err(format!("a comment within {frame:?}")),
            };
        }
        let (name, value) = match line {
            "data:" => ("data", ""),
            _ => line
                .split_once(": ")
                .ok_or_else(|| format!("neither a field nor a comment: {line:?}"))?,
        };
        let frame = self.frame.get_or_insert_with(|| Frame {
            id: None,
            event: None,
            data: None,
            retry: None,
            raw: String::new(),
        });
        frame.raw += line;
        frame.raw.push('\n');
        let repeated = match name {
            "id" => frame.id.replace(value.to_owned()).is_some(),
            "event" => frame.event.replace(value.to_owned()).is_some(),
            "data" => frame.data.replace(value.to_owned()).is_some(),
            "retry" => frame.retry.replace(positive(value)?).is_some(),
            _ => return Err(format!("an unknown field: {line:?}")),
        };
        if repeated {
            Err(format!("a field twice: {line:?}"))
        } else {
            Ok(None)
        }
    }
}

fn positive(value: &str) -> Result<u64, String> {
    value
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("not a positive integer: {value:?}"))
}

/// An open stream of events. Its ids must rise, its messages must be of the type `message` (or tell the endpoint of HTTP+SSE).
pub struct EventStream {
    pub head: Head,
    body: Body,
    parser: Parser,
    /// The highest id so far, or the one that the stream was resumed from.
    pub last_id: Option<u64>,
    /// Texts of the comments so far.
    pub comments: Vec<String>,
    // Shown when something else was expected.
    history: Vec<String>,
    // The answer to a listen: events of data alone, without ids.
    is_listen: bool,
}

/// What comes next on a stream.
#[derive(Debug)]
pub enum Next {
    Frame(Frame),
    Comment,
    /// The server ended the stream cleanly.
    End,
    Broken(String),
    Late,
}

impl EventStream {
    /// Takes over an answer; panics if it is not a stream of events with the headers that B-2.6 demands.
    pub fn new((head, body): (Head, Body), last_id: Option<u64>) -> EventStream {
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(
            head.header("content-type").as_deref(),
            Some("text/event-stream"),
            "{head:?}"
        );
        EventStream {
            head,
            body,
            parser: Parser::default(),
            last_id,
            comments: Vec::new(),
            history: Vec::new(),
            is_listen: false,
        }
    }

    /// Takes over the answer to a `subscriptions/listen`.
    pub fn of_listen(answer: (Head, Body)) -> EventStream {
        EventStream {
            is_listen: true,
            ..EventStream::new(answer, None)
        }
    }

    /// Returns the next item in at most this time.
    pub fn next_within(&mut self, patience: Duration) -> Next {
        let deadline = Instant::now() + patience;
        loop {
            match self.parser.next() {
                Ok(Some(Item::Frame(frame))) => {
                    self.history.push(frame.raw.clone());
                    self.check(&frame);
                    return Next::Frame(frame);
                }
                Ok(Some(Item::Comment(comment))) => {
                    self.history.push(format!(":{comment}"));
                    self.comments.push(comment);
                    return Next::Comment;
                }
                Ok(None) => {}
                Err(violation) => panic!("{violation}; before it: {:#?}", self.history),
            }
            match self.body.read(deadline) {
                Part::Bytes(bytes) => self.parser.push(&bytes),
                Part::Ended if self.parser.is_between() => return Next::End,
                Part::Ended => panic!("the stream ended within an event; before it: {:#?}", self.history),
                Part::Broken(how) => return Next::Broken(how),
                Part::Late => return Next::Late,
            }
        }
    }

    fn check(&mut self, frame: &Frame) {
        if self.is_listen {
            let is_data_alone = frame.id.is_none() && frame.event.is_none() && frame.retry.is_none();
            assert!(is_data_alone && frame.data.is_some(), "more than data: {frame:?}");
            return;
        }
        if frame.id.is_some() {
            let id = frame.number();
            assert!(
                Some(id) > self.last_id,
                "the id {id} does not rise above {:?}: {:#?}",
                self.last_id,
                self.history
            );
            self.last_id = Some(id);
        }
        match frame.data.as_deref() {
            None => panic!("an event without data: {frame:?}"),
            Some("") => assert!(
                frame.id.is_some() && frame.event.is_none(),
                "an empty event: {frame:?}"
            ),
            Some(_) => assert!(
                matches!(frame.event.as_deref(), Some("message" | "endpoint")),
                "{frame:?}"
            ),
        }
    }

    /// Returns the next frame; comments are passed over.
    pub fn frame(&mut self) -> Frame {
        loop {
            match self.next_within(PATIENCE) {
                Next::Frame(frame) => return frame,
                Next::Comment => {}
                Next::Broken(how) => panic!("the stream broke: {how}, after {:#?}", self.history),
                other => panic!("expected a frame, got {other:?} after {:#?}", self.history),
            }
        }
    }

    /// Returns the next frame with a message; bookmarks are passed over, an opening block is not.
    pub fn message(&mut self) -> Frame {
        loop {
            let frame = self.frame();
            if !frame.is_position() {
                return frame;
            }
            assert!(
                frame.is_bookmark(),
                "expected a message, got {frame:?} after {:#?}",
                self.history
            );
        }
    }

    /// Returns the opening block, which must come next.
    pub fn opening(&mut self) -> Frame {
        let frame = self.frame();
        let is_opening = frame.is_position() && frame.retry.is_some() && frame.number() & 0xffff == 6;
        assert!(
            is_opening,
            "expected an opening block, got {frame:?} after {:#?}",
            self.history
        );
        frame
    }

    /// Returns the id of the next message, which must be an update of this URI with an id.
    pub fn update(&mut self, uri: &str) -> u64 {
        let frame = self.message();
        assert_eq!(
            frame.updated_uri().as_deref(),
            Some(uri),
            "after {:#?}",
            self.history
        );
        frame.number()
    }

    /// Reads a gap's notices, up to the opening block, which it returns: one update without id for each of these URIs, in
    /// any order, and the three list_changed.
    pub fn gap(&mut self, uris: &[&str]) -> Frame {
        let mut told = Vec::new();
        loop {
            let frame = self.frame();
            if frame.is_position() {
                let mut expected: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
                expected.extend(
                    ["tools", "resources", "prompts"]
                        .map(|list| format!("notifications/{list}/list_changed")),
                );
                expected.sort();
                told.sort();
                assert_eq!(told, expected, "what a gap tells; {:#?}", self.history);
                assert!(frame.retry.is_some(), "{frame:?}");
                return frame;
            }
            assert_eq!(frame.id, None, "a gap's notice is no cursor");
            let method = frame.message()["method"].as_str().unwrap_or_default().to_owned();
            told.push(frame.updated_uri().unwrap_or(method));
        }
    }

    /// Reads until the server ends the stream, cleanly, and returns the messages that still came.
    pub fn ends(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            match self.next_within(PATIENCE) {
                Next::Frame(frame) if frame.is_position() => {}
                Next::Frame(frame) => frames.push(frame),
                Next::Comment => {}
                Next::End => return frames,
                other => panic!("expected a clean end, got {other:?} after {:#?}", self.history),
            }
        }
    }

    /// Goes away, as a client does that closes its connection.
    pub fn close(self) {
        self.body.close();
    }

    /// Gives the socket to a reader of its own, which must be between two events.
    pub fn into_socket(self) -> (TcpStream, Chunks, Vec<u8>) {
        assert!(self.parser.is_between());
        self.body.into_chunked()
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, Parser};

    fn parse(text: &str) -> Result<Vec<Item>, String> {
        let (mut parser, mut items) = (Parser::default(), Vec::new());
        // Byte by byte, so that every cut is tried.
        for byte in text.as_bytes() {
            parser.push(&[*byte]);
            while let Some(item) = parser.next()? {
                items.push(item);
            }
        }
        Ok(items)
    }

    #[test]
    fn frames_and_comments_are_told_apart() {
        let items =
            parse(":\nid: 7\ndata:\nretry: 900\n\n: quiet\nid: 8\nevent: message\ndata: {}\n\n").unwrap();
        let [
            Item::Comment(empty),
            Item::Frame(opening),
            Item::Comment(quiet),
            Item::Frame(message),
        ] = &items[..]
        else {
            panic!("{items:?}");
        };
        assert_eq!((empty.as_str(), quiet.as_str()), ("", "quiet"));
        assert_eq!(
            (opening.number(), opening.is_position(), opening.retry),
            (7, true, Some(900))
        );
        assert_eq!(
            (message.raw.as_str(), message.is_position()),
            ("id: 8\nevent: message\ndata: {}\n\n", false)
        );
    }

    #[test]
    fn what_a_client_library_would_trip_over_is_refused() {
        for bad in [
            ": quiet\n\n",
            "id: 1\n: quiet\n",
            "data: a\ndata: b\n",
            "id:1\n",
            "id: 1\r\n",
            "data: \u{2028}\n",
            "retry: 0\n",
            "retry: soon\n",
            "name: x\n",
        ] {
            parse(bad).expect_err(bad);
        }
    }
}
