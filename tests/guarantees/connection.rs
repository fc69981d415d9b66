//! The reading end of a stream: a task that writes down what comes, as fast as its client lets it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::history::{Frame, History, What};
use crate::harness::RUNTIME;
use crate::harness::async_http::AsyncBody;
use crate::harness::event_stream::{self, Item, Parser};
use crate::harness::http::Part;
use crate::harness::modern::{CURSOR, RESUMED, cursor_id};

/// A history that its client and the readers of its connections write.
pub type Shared = Arc<Mutex<History>>;

/// What a reader tells its client.
#[derive(Debug)]
pub enum Event {
    /// The answer to a call, of a client that gets them on its stream.
    Answer(Value),
    /// Where that client POSTs to.
    Endpoint(String),
    /// A listen was acknowledged.
    Acknowledged,
    /// The stream of this connection ended, by whomever.
    Ended(usize),
}

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Session,
    Listen,
}

/// A connection that is read; dropping it closes it.
pub struct Reader {
    task: JoinHandle<()>,
    stalled: watch::Sender<bool>,
    /// The newest cursor of a listen.
    pub cursor: Arc<Mutex<Option<String>>>,
}

impl Reader {
    /// Reads a body into the connection `index` of a history.
    pub fn spawn(
        body: AsyncBody,
        form: Form,
        history: Shared,
        index: usize,
        events: mpsc::UnboundedSender<Event>,
    ) -> Reader {
        let (stalled, follower) = watch::channel(false);
        let cursor = Arc::new(Mutex::new(None));
        let reading = Reading {
            form,
            history,
            index,
            events,
            cursor: Arc::clone(&cursor),
            known: Vec::new(),
        };
        let task = RUNTIME.spawn(reading.run(body, follower));
        Reader {
            task,
            stalled,
            cursor,
        }
    }

    /// Closes the connection, and waits until nothing more is written down of it.
    pub async fn close(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// Stops reading, or goes on.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.stalled.send_replace(is_stalled);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Reading {
    form: Form,
    history: Shared,
    index: usize,
    events: mpsc::UnboundedSender<Event>,
    cursor: Arc<Mutex<Option<String>>>,
    /// The URIs so far: there are few, and each comes often.
    known: Vec<Arc<str>>,
}

/// What stands before the URI in the notices of a session.
const UPDATED: &str = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":""#;

impl Reading {
    async fn run(mut self, mut body: AsyncBody, mut stalled: watch::Receiver<bool>) {
        let mut parser = Parser::default();
        loop {
            if stalled.wait_for(|stalled| !stalled).await.is_err() {
                return;
            }
            let part = tokio::select! {
                part = body.read() => part,
                _ = stalled.changed() => continue,
            };
            let Part::Bytes(bytes) = part else { break };
            parser.push(&bytes);
            if let Err(how) = self.take_all(&mut parser) {
                self.complain(how);
                break;
            }
        }
        self.history.lock().unwrap().connections[self.index].has_ended = true;
        // The client may be gone before its connections.
        let _ = self.events.send(Event::Ended(self.index));
    }

    fn take_all(&mut self, parser: &mut Parser) -> Result<(), String> {
        while let Some(item) = parser.next()? {
            if let Item::Frame(frame) = item {
                match self.form {
                    Form::Session => self.take(&frame)?,
                    Form::Listen => self.take_of_listen(&frame)?,
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &event_stream::Frame) -> Result<(), String> {
        let id = match &frame.id {
            Some(id) => Some(
                id.parse::<u64>()
                    .map_err(|_| format!("an id of another form: {frame:?}"))?,
            ),
            None => None,
        };
        let data = frame
            .data
            .as_deref()
            .ok_or_else(|| format!("no data: {frame:?}"))?;
        if frame.event.as_deref() == Some("endpoint") {
            let _ = self.events.send(Event::Endpoint(data.to_owned()));
            return Ok(());
        }
        if data.is_empty() {
            let id = id.ok_or_else(|| format!("an empty event: {frame:?}"))?;
            let what = if id & 0xffff == 0xffff {
                What::Bookmark
            } else {
                What::Opening
            };
            self.note(Some(id), what, data);
            return Ok(());
        }
        if let Some(uri) = data
            .strip_prefix(UPDATED)
            .and_then(|rest| rest.strip_suffix("\"}}"))
        {
            let uri = self.intern(uri);
            self.note(id, What::Updated(uri), data);
            return Ok(());
        }
        let message: Value = serde_json::from_str(data).map_err(|error| format!("{error}: {frame:?}"))?;
        match message["method"].as_str() {
            Some(method) if method.ends_with("/list_changed") => {
                let method = self.intern(method);
                self.note(id, What::ListChanged(method), data);
            }
            None if message.get("id").is_some() && id.is_none() => {
                let _ = self.events.send(Event::Answer(message));
            }
            _ => return Err(format!("nothing that a server sends: {frame:?}")),
        }
        Ok(())
    }

    fn take_of_listen(&mut self, frame: &event_stream::Frame) -> Result<(), String> {
        if frame.id.is_some() || frame.event.is_some() {
            return Err(format!("more than data: {frame:?}"));
        }
        let message = frame.message();
        let meta = &message["params"]["_meta"];
        let cursor = meta[CURSOR].as_str();
        let id = cursor.map(cursor_id).filter(|id| *id > 0);
        if let Some(cursor) = cursor {
            *self.cursor.lock().unwrap() = Some(cursor.to_owned());
        }
        match message["method"].as_str() {
            Some("notifications/subscriptions/acknowledged") => {
                // One that goes on stands where its client said, which is no news.
                if meta[RESUMED] == false && id.is_some() {
                    self.note(id, What::Opening, "");
                }
                let _ = self.events.send(Event::Acknowledged);
            }
            Some("notifications/resources/updated") => {
                let uri = message["params"]["uri"].as_str().unwrap_or_default();
                let uri = self.intern(uri);
                let is_of_change = id.is_some_and(|id| id & 0xffff != 0xffff);
                let data = frame.data.as_deref().unwrap_or_default();
                self.note(id.filter(|_| is_of_change), What::Updated(uri), data);
                // The last notice of a gap says where its client goes on.
                if !is_of_change && id.is_some() {
                    self.note(id, What::Opening, "");
                }
            }
            Some("notifications/cancelled") => {}
            _ if message.get("result").is_some() => {}
            _ => return Err(format!("nothing that a server sends: {frame:?}")),
        }
        Ok(())
    }

    fn note(&self, id: Option<u64>, what: What, data: &str) {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        let frame = Frame {
            at: Instant::now(),
            id,
            what,
            bytes: hasher.finish(),
        };
        self.history.lock().unwrap().connections[self.index]
            .frames
            .push(frame);
    }

    fn complain(&self, how: String) {
        let how = format!("connection {}: {how}", self.index);
        self.history.lock().unwrap().complaints.push(("ordered", how));
    }

    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.iter().find(|known| &***known == text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.known.push(Arc::clone(&text));
        text
    }
}
