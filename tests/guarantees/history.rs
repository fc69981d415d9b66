//! What is recorded of a run: what each client sent and saw, what was committed, and what the operator did.
//!
//! Moments are of one clock, since everybody lives in one process: that something was answered before something else began is
//! known for certain, and that is what the validators build on.

use std::sync::Arc;
use std::time::Instant;

/// A table of the database `data`, or one of its records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watched {
    pub table: String,
    pub key: Option<String>,
}

/// The life of one client, or of one listen that does not resume.
#[derive(Clone, Debug)]
pub struct History {
    /// For messages: which client this is.
    pub who: String,
    pub kind: Kind,
    /// What it asked for and what became of that, in order.
    pub calls: Vec<Call>,
    /// In the order in which they were asked for.
    pub connections: Vec<Connection>,
    pub reads: Vec<Read>,
    /// What no server may do, whatever the log says: noticed by the client itself, with the guarantee that it breaks.
    pub complaints: Vec<(&'static str, String)>,
    /// It saw everything up to this revision; `None` while it is still under way, or where it went away before the end.
    pub complete_until: Option<u64>,
}

/// What a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A session of the legacy era: its id in the log; what it is subscribed to stands there.
    Session { id: String, has_bookmarks: bool },
    /// A listen: the URIs that it named, from its first acknowledgement on.
    Listen { uris: Vec<Arc<str>> },
}

/// A call that changes what the log says of a session.
#[derive(Clone, Debug)]
pub struct Call {
    pub what: Asked,
    pub uri: Arc<str>,
    pub asked: Instant,
    /// When it was answered with success. `None`: it was refused, or nobody knows.
    pub answered: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Subscribe,
    Unsubscribe,
    Delete,
}

/// From where on a client opens a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It says nothing of what it has seen.
    Absent,
    /// After this id.
    After(u64),
}

/// One connection on which a stream was opened.
#[derive(Clone, Debug)]
pub struct Connection {
    pub start: Start,
    pub asked: Instant,
    /// What the client knew itself to be subscribed to when it asked.
    pub held: Vec<Arc<str>>,
    pub frames: Vec<Frame>,
    /// The connection for which this one was taken over, while it was open, and whether the server ended it since.
    pub taken_over_by: Option<usize>,
    pub has_ended: bool,
}

/// One event of a stream, without answers to calls.
#[derive(Clone, Debug)]
pub struct Frame {
    pub at: Instant,
    pub id: Option<u64>,
    pub what: What,
    /// A hash of the bytes of its data.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// `notifications/resources/updated` for this URI.
    Updated(Arc<str>),
    /// A `list_changed`, by its method.
    ListChanged(Arc<str>),
    /// The opening block, or the acknowledgement of a listen, or the end of a gap's notices of a listen.
    Opening,
    Bookmark,
}

/// A record that was read after a notice.
#[derive(Clone, Debug)]
pub struct Read {
    pub watched: Watched,
    /// The id of the notice that was there before.
    pub after: u64,
    /// The revision of the record, `None` if there was none.
    pub found: Option<u64>,
}

/// A commit by the harness.
#[derive(Clone, Debug)]
pub struct Commit {
    pub started: Instant,
    /// Tables and keys, in order.
    pub changes: Vec<Watched>,
    /// When it was acknowledged, and at which revision it ended.
    pub acknowledged: Option<(Instant, u64)>,
}

/// The beginning of the log was dropped.
#[derive(Clone, Copy, Debug)]
pub struct Compaction {
    pub started: Instant,
    pub ended: Instant,
    /// The oldest revision that was left.
    pub oldest: u64,
}

/// The memory of one gateway process.
#[derive(Clone, Debug)]
pub struct Memory {
    pub who: String,
    pub baseline_bytes: u64,
    pub peak_bytes: u64,
}

/// One entry of the log, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Entry {
    pub revision: u64,
    pub commit_end: u64,
    pub time_ms: i64,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Change { watched: Watched, is_delete: bool },
    Opened { session: String },
    Closed { session: String, fence: u64 },
    Subscribed { session: String, spelling: String },
    Unsubscribed { session: String, spelling_of: String },
    Deleted { session: String },
    Other,
}

impl Watched {
    pub fn table(table: &str) -> Watched {
        Watched {
            table: table.into(),
            key: None,
        }
    }

    pub fn record(table: &str, key: &str) -> Watched {
        Watched {
            table: table.into(),
            key: Some(key.into()),
        }
    }

    /// Reads the path of a row URI, whatever host it names. The keys of the run need no escapes.
    pub fn of_uri(uri: &str) -> Watched {
        let path = uri.splitn(4, '/').nth(3).unwrap_or_default();
        match path.split_once('/') {
            Some((table, key)) => Watched::record(table, key),
            None => Watched::table(path),
        }
    }
}

impl Connection {
    pub fn new(start: Start, asked: Instant, held: Vec<Arc<str>>) -> Connection {
        Connection {
            start,
            asked,
            held,
            frames: Vec::new(),
            taken_over_by: None,
            has_ended: false,
        }
    }

    /// The highest id so far, or the one that the client began after.
    pub fn cursor(&self) -> Start {
        let newest = self.frames.iter().filter_map(|frame| frame.id).max();
        newest.map_or(self.start, Start::After)
    }
}

impl Frame {
    /// The URI of a notice.
    pub fn updated(&self) -> Option<&Arc<str>> {
        match &self.what {
            What::Updated(uri) => Some(uri),
            What::ListChanged(_) | What::Opening | What::Bookmark => None,
        }
    }
}
