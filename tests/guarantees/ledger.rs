//! The log of a run, indexed for the validators: what changed when, who was subscribed to what, and what could be known at a
//! moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use proto::feed::v1::entry::Body as LogBody;
use proto::feed::v1::session_command::Command;
use proto::feed::v1::{Entry as LogEntry, Operation};

use super::history::{Asked, Body, Commit, Compaction, Entry, History, Kind, Memory, Start, Watched};
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id};

/// What holds for all clients of a run.
pub struct Ledger {
    pub entries: Vec<Entry>,
    pub commits: Vec<Commit>,
    pub compactions: Vec<Compaction>,
    pub memory: Vec<Memory>,
    pub bounds: Bounds,
    /// The run is over: every commit was acknowledged.
    pub is_whole: bool,
    of_table: HashMap<String, Vec<u64>>,
    of_record: HashMap<Watched, Vec<u64>>,
    commit_ends: BTreeMap<u64, u64>,
    of_session: HashMap<String, Vec<usize>>,
    /// When commits began, and the highest revision of any that had begun by then.
    begun: Vec<(Instant, u64)>,
}

/// The limits that the services were given.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// `replay.catch_up`
    pub catch_up: usize,
    /// By how much a gateway's memory may grow.
    pub memory_bytes: u64,
}

/// A time during which a client was subscribed.
#[derive(Clone, Debug)]
pub struct Interval {
    pub uri: Arc<str>,
    pub watched: Watched,
    /// Changes with a higher revision are noticed …
    pub since: u64,
    /// … and below this one.
    pub until: Option<u64>,
    /// Before this moment nobody had asked for its end.
    pub unasked_until: Option<Instant>,
}

/// What a client must be told and may be told.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub intervals: Vec<Interval>,
    /// Event ids with the index of their interval, rising.
    pub ids: Vec<(u64, usize)>,
}

impl Ledger {
    pub fn new(
        entries: Vec<Entry>,
        commits: Vec<Commit>,
        compactions: Vec<Compaction>,
        memory: Vec<Memory>,
        bounds: Bounds,
        is_whole: bool,
    ) -> Ledger {
        let mut ledger = Ledger {
            commits,
            compactions,
            memory,
            bounds,
            is_whole,
            of_table: HashMap::new(),
            of_record: HashMap::new(),
            commit_ends: BTreeMap::new(),
            of_session: HashMap::new(),
            begun: Vec::new(),
            entries: Vec::new(),
        };
        for (index, entry) in entries.iter().enumerate() {
            ledger.commit_ends.insert(entry.revision, entry.commit_end);
            match &entry.body {
                Body::Change { watched, .. } => {
                    let table = ledger.of_table.entry(watched.table.clone()).or_default();
                    table.push(entry.revision);
                    let record = ledger.of_record.entry(watched.clone()).or_default();
                    record.push(entry.revision);
                }
                Body::Opened { session }
                | Body::Closed { session, .. }
                | Body::Subscribed { session, .. }
                | Body::Unsubscribed { session, .. }
                | Body::Deleted { session } => {
                    let of_session = ledger.of_session.entry(session.clone()).or_default();
                    of_session.push(index);
                }
                Body::Other => {}
            }
        }
        ledger.entries = entries;
        let mut begun: Vec<(Instant, u64)> = ledger
            .commits
            .iter()
            .map(|commit| {
                // One that nobody has an answer to may have any revision.
                let end = commit.acknowledged.map_or(u64::MAX, |(_, revision)| revision);
                (commit.started, end)
            })
            .collect();
        begun.sort_unstable();
        let mut highest = 0;
        for (_, revision) in &mut begun {
            highest = highest.max(*revision);
            *revision = highest;
        }
        ledger.begun = begun;
        ledger
    }

    /// The highest revision that a change can have had which somebody knew of at this moment.
    pub fn highest_begun_by(&self, moment: Instant) -> u64 {
        let count = self.begun.partition_point(|(started, _)| *started <= moment);
        count.checked_sub(1).map_or(0, |last| self.begun[last].1)
    }

    /// The lowest first revision of the commits that began after this moment.
    pub fn lowest_begun_after(&self, moment: Instant) -> Option<u64> {
        let later = self
            .commits
            .iter()
            .filter(|commit| commit.started > moment && !commit.changes.is_empty());
        later
            .filter_map(|commit| {
                let (_, end) = commit.acknowledged?;
                Some(end + 1 - commit.changes.len() as u64)
            })
            .min()
    }

    /// The last revision of the commit that a revision belongs to.
    pub fn commit_end(&self, revision: u64) -> u64 {
        self.commit_ends.get(&revision).copied().unwrap_or(revision)
    }

    /// The newest change of a record up to a revision.
    pub fn newest_change(&self, record: &Watched, until: u64) -> Option<u64> {
        let revisions = self.of_record.get(record)?;
        let count = revisions.partition_point(|revision| *revision <= until);
        count.checked_sub(1).map(|last| revisions[last])
    }

    /// Whether the record was removed at some revision from this one on.
    pub fn is_removed_from(&self, record: &Watched, revision: u64) -> bool {
        let first = self.entries.partition_point(|entry| entry.revision < revision);
        self.entries[first..].iter().any(
            |entry| matches!(&entry.body, Body::Change { watched, is_delete: true } if watched == record),
        )
    }

    /// The oldest revision of the log at least, at this moment, and at most, at that one.
    pub fn oldest_between(&self, from: Instant, to: Instant) -> (u64, u64) {
        let oldest = |compactions: &mut dyn Iterator<Item = &Compaction>| {
            compactions.map(|compaction| compaction.oldest).max().unwrap_or(1)
        };
        let ended = oldest(&mut self.compactions.iter().filter(|one| one.ended < from));
        let started = oldest(&mut self.compactions.iter().filter(|one| one.started < to));
        (ended, started)
    }

    /// The entries of one session, in order.
    pub fn of_session(&self, session: &str) -> impl Iterator<Item = &Entry> {
        let indexes = self.of_session.get(session).map_or(&[][..], Vec::as_slice);
        indexes.iter().map(|index| &self.entries[*index])
    }

    /// Every session that the log knows.
    pub fn sessions(&self) -> impl Iterator<Item = &String> {
        self.of_session.keys()
    }

    /// Returns what the client of a history was subscribed to, and what that makes of the log.
    pub fn wanted(&self, history: &History) -> Wanted {
        let intervals = match &history.kind {
            Kind::Session { id, .. } => self.session_intervals(id, history),
            Kind::Listen { uris } => listen_intervals(uris, history),
        };
        let mut ids = Vec::new();
        for (index, interval) in intervals.iter().enumerate() {
            let (revisions, slot) = match interval.watched.key {
                Some(_) => (self.of_record.get(&interval.watched), RECORD_SLOT),
                None => (self.of_table.get(&interval.watched.table), TABLE_SLOT),
            };
            let revisions = revisions.map_or(&[][..], Vec::as_slice);
            let first = revisions.partition_point(|revision| *revision <= interval.since);
            let count =
                revisions.partition_point(|revision| interval.until.is_none_or(|until| *revision < until));
            let within = revisions[first..count.max(first)].iter();
            ids.extend(within.map(|revision| (event_id(*revision, slot), index)));
        }
        ids.sort_unstable();
        Wanted { intervals, ids }
    }

    fn session_intervals(&self, session: &str, history: &History) -> Vec<Interval> {
        let mut intervals: Vec<Interval> = Vec::new();
        for entry in self.of_session(session) {
            match &entry.body {
                Body::Subscribed { spelling, .. } => intervals.push(Interval {
                    uri: spelling.as_str().into(),
                    watched: Watched::of_uri(spelling),
                    since: entry.revision,
                    until: None,
                    unasked_until: None,
                }),
                Body::Unsubscribed { spelling_of, .. } => {
                    let ended = Watched::of_uri(spelling_of);
                    for interval in intervals
                        .iter_mut()
                        .filter(|one| one.until.is_none() && one.watched == ended)
                    {
                        interval.until = Some(entry.revision);
                        interval.unasked_until = first_asked(history, Some(&interval.uri));
                    }
                }
                Body::Deleted { .. } => {
                    for interval in intervals.iter_mut().filter(|one| one.until.is_none()) {
                        interval.until = Some(entry.revision);
                        interval.unasked_until = first_asked(history, None);
                    }
                }
                Body::Opened { .. } | Body::Closed { .. } | Body::Change { .. } | Body::Other => {}
            }
        }
        intervals
    }
}

/// When the end of a subscription, or of the session, was asked for first. An interval of a URI that was subscribed more than once
/// is only the less looked at by that.
fn first_asked(history: &History, uri: Option<&Arc<str>>) -> Option<Instant> {
    let ends = history.calls.iter().filter(|call| match call.what {
        Asked::Subscribe => false,
        Asked::Unsubscribe => Some(&call.uri) == uri,
        Asked::Delete => true,
    });
    ends.map(|call| call.asked).min()
}

fn listen_intervals(uris: &[Arc<str>], history: &History) -> Vec<Interval> {
    // It is effective from its first acknowledgement on.
    let first = history.connections.first().and_then(|connection| {
        let acknowledged = connection.frames.iter().find_map(|frame| frame.id);
        match (connection.start, acknowledged) {
            (Start::After(id), _) | (Start::Absent, Some(id)) => Some(id >> 16),
            (Start::Absent, None) => None,
        }
    });
    let Some(since) = first else { return Vec::new() };
    let interval = |uri: &Arc<str>| Interval {
        uri: Arc::clone(uri),
        watched: Watched::of_uri(uri),
        since,
        until: None,
        unasked_until: None,
    };
    uris.iter().map(interval).collect()
}

/// Reads an entry of the log.
pub fn read_entry(entry: LogEntry) -> Entry {
    let body = match entry.body {
        Some(LogBody::Change(change)) if change.database == "data" => Body::Change {
            watched: Watched::record(&change.table, &change.key),
            is_delete: change.operation == i32::from(Operation::Delete),
        },
        Some(LogBody::Session(command)) => {
            let session = command.session_id;
            match command.command {
                Some(Command::Opened(_)) => Body::Opened { session },
                Some(Command::Closed(closed)) => Body::Closed {
                    session,
                    fence: closed.fence,
                },
                Some(Command::Subscribed(subscribed)) => Body::Subscribed {
                    session,
                    spelling: subscribed.spelling,
                },
                Some(Command::Unsubscribed(unsubscribed)) => Body::Unsubscribed {
                    session,
                    spelling_of: unsubscribed.uri,
                },
                Some(Command::Deleted(_)) => Body::Deleted { session },
                Some(Command::Created(_) | Command::LogLevelSet(_)) | None => Body::Other,
            }
        }
        Some(LogBody::Change(_)) | None => Body::Other,
    };
    Entry {
        revision: entry.revision,
        commit_end: entry.commit_end,
        time_ms: entry.commit_time_ms,
        body,
    }
}
