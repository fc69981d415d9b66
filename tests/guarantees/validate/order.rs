//! *ordered*: ids rise on a stream, across reconnects and instances. *unique*: no frame twice, and one stream at a time.

use std::collections::HashSet;

use super::{View, shown};
use crate::guarantees::history::{Body, Connection, History, Start, What};
use crate::guarantees::ledger::Ledger;

/// Ids rise on each connection, and above the id that it began after.
pub(super) fn ordered(view: &View<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for (index, connection) in view.history.connections.iter().enumerate() {
        let mut last = None;
        for id in connection.frames.iter().filter_map(|frame| frame.id) {
            if last.is_some_and(|last| id < last) {
                violations.push(format!(
                    "connection {index}: {} came after {}",
                    shown(id),
                    shown(last.unwrap_or_default())
                ));
            }
            last = last.max(Some(id));
        }
    }
    violations
}

/// No id comes twice, except by a resume from an older one; a stream that was taken over carries nothing more.
pub(super) fn unique(view: &View<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    let mut seen_before: HashSet<u64> = HashSet::new();
    let connections = &view.history.connections;
    for (index, connection) in connections.iter().enumerate() {
        let mut seen = HashSet::new();
        for frame in &connection.frames {
            let Some(id) = frame.id else { continue };
            let is_twice = match connection.start {
                Start::After(cursor) => id <= cursor,
                // Nothing of what was before the open comes on such a stream.
                Start::Absent => frame.updated().is_some() && seen_before.contains(&id),
            };
            if is_twice || !seen.insert(id) {
                violations.push(format!(
                    "connection {index} ({:?}): {} came twice",
                    connection.start,
                    shown(id)
                ));
            }
        }
        seen_before.extend(seen);
        let Some(newer) = connection.taken_over_by.map(|newer| &connections[newer]) else {
            continue;
        };
        // Which of two opens is the later one is decided by the log. A stream that had not begun when the newer one was asked for
        // may have been opened behind it.
        let had_begun = connection.frames.iter().any(|frame| frame.at < newer.asked);
        if !had_begun {
            continue;
        }
        let fence = newer
            .frames
            .iter()
            .find(|frame| frame.what == What::Opening)
            .and_then(|frame| frame.id);
        // With its first frame the newer stream was open: what began later is the newer one's.
        let begun_after = newer
            .frames
            .first()
            .and_then(|frame| view.ledger.lowest_begun_after(frame.at));
        for id in connection.frames.iter().filter_map(|frame| frame.id) {
            let is_late = fence.is_some_and(|fence| id >> 16 > fence >> 16)
                || begun_after.is_some_and(|begun| id >> 16 >= begun);
            if is_late {
                violations.push(format!(
                    "connection {index}: {} came on it although it was taken over (the newer open: {}): {:?}, then {:?}",
                    shown(id),
                    fence.map_or("not told".into(), shown),
                    Shape::of(connection),
                    connections[index + 1..].iter().map(Shape::of).collect::<Vec<_>>()
                ));
            }
        }
        if view.history.complete_until.is_some() && !connection.has_ended && !newer.frames.is_empty() {
            violations.push(format!(
                "connection {index} was taken over and did not end: {:?}, then {:?}",
                Shape::of(connection),
                connections[index + 1..].iter().map(Shape::of).collect::<Vec<_>>()
            ));
        }
    }
    violations
}

/// A close counts for the open that it names only: in the log every close is of the session's newest open.
pub(super) fn fenced(ledger: &Ledger, _histories: &[History]) -> Vec<String> {
    let mut violations = Vec::new();
    for session in ledger.sessions() {
        let mut open = None;
        for entry in ledger.of_session(session) {
            match &entry.body {
                Body::Opened { .. } => open = Some(entry.revision),
                Body::Closed { fence, .. } => {
                    // What was opened below the beginning of what was recorded is not known.
                    if open.is_some_and(|open| open != *fence) {
                        violations.push(format!(
                            "session {session}: the close at {} names the open {fence}, but {open:?} stands",
                            entry.revision
                        ));
                    }
                    open = Some(0);
                }
                Body::Subscribed { .. }
                | Body::Unsubscribed { .. }
                | Body::Deleted { .. }
                | Body::Change { .. }
                | Body::Other => {}
            }
        }
    }
    violations
}

/// What a message shows of a connection.
#[derive(Debug)]
#[allow(dead_code, reason = "it is shown")]
struct Shape {
    start: Start,
    frames: usize,
    first: Option<String>,
    last: Option<String>,
    taken_over_by: Option<usize>,
    has_ended: bool,
}

impl Shape {
    fn of(connection: &Connection) -> Shape {
        let mut ids = connection.frames.iter().filter_map(|frame| frame.id);
        Shape {
            start: connection.start,
            frames: connection.frames.len(),
            first: ids.next().map(shown),
            last: ids.next_back().map(shown),
            taken_over_by: connection.taken_over_by,
            has_ended: connection.has_ended,
        }
    }
}
