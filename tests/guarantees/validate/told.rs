//! *told*: a gap is never silent, and nothing else is told as one. *filtered*: nothing that was not subscribed.

use std::collections::HashMap;
use std::sync::Arc;

use super::{View, shown};
use crate::guarantees::history::{Connection, Frame, Kind, Start, What};

/// What the notices of a gap tell of besides the URIs, in a session.
const LISTS: [&str; 3] = [
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
];

/// Every notice with an id is of a change while its URI was subscribed, and every other one of a URI that was subscribed once.
pub(super) fn filtered(view: &View<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    let allowed: HashMap<u64, &Arc<str>> = view
        .wanted
        .ids
        .iter()
        .map(|(id, interval)| (*id, &view.wanted.intervals[*interval].uri))
        .collect();
    for (index, connection) in view.history.connections.iter().enumerate() {
        for frame in &connection.frames {
            let is_allowed = match (&frame.what, frame.id) {
                (What::Updated(uri), Some(id)) => allowed.get(&id) == Some(&uri),
                (What::Updated(uri), None) => {
                    view.wanted.intervals.iter().any(|interval| interval.uri == *uri)
                }
                (What::ListChanged(_), id) => id.is_none(),
                (What::Opening | What::Bookmark, _) => true,
            };
            if !is_allowed {
                violations.push(format!(
                    "connection {index}: {:?} with the id {:?} was not subscribed",
                    frame.what,
                    frame.id.map(shown)
                ));
            }
        }
    }
    violations
}

/// A cursor that the log no longer has is answered by one notice for each URI, and another one by none.
pub(super) fn told(view: &View<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for (index, connection) in view.history.connections.iter().enumerate() {
        let mut place = 0;
        while place < connection.frames.len() {
            let rest = &connection.frames[place..];
            let count = rest.iter().take_while(|frame| frame.id.is_none()).count();
            if count > 0 || place == 0 {
                let verdict = check_gap(view, connection, place, &rest[..count], rest.get(count));
                violations.extend(verdict.err().map(|how| format!("connection {index}: {how}")));
            }
            place += count.max(1);
        }
    }
    violations
}

/// Looks at the notices without ids from `place` on, which end with `next` if the stream did not end before.
fn check_gap(
    view: &View<'_>,
    connection: &Connection,
    place: usize,
    notices: &[Frame],
    next: Option<&Frame>,
) -> Result<(), String> {
    let is_first = place == 0;
    let cursor = match connection.frames[..place].iter().rev().find_map(|frame| frame.id) {
        Some(id) => Start::After(id),
        None => connection.start,
    };
    let last = notices.last().or(next).map_or(connection.asked, |frame| frame.at);
    let (oldest_before, oldest_after) = view.ledger.oldest_between(connection.asked, last);
    let (is_due, may_be) = match cursor {
        Start::Absent => (!connection.held.is_empty(), true),
        // The frames of one revision are more than one, so the revision itself may be needed.
        Start::After(id) => (
            (id >> 16) + 1 < oldest_before && is_first,
            id >> 16 < oldest_after,
        ),
    };
    // A listen may go on from what its gateway still has although the log has not; then nothing is missing.
    let is_session = matches!(view.history.kind, Kind::Session { .. });
    let is_due = is_due && is_session && !connection.held.is_empty();
    if !notices.is_empty() && !may_be {
        return Err(format!(
            "a gap was told after {cursor:?}, which the log has: {:?}",
            notices[0].what
        ));
    }
    // A connection that broke before its next id is resumed from the old one: the gap is told again then.
    let Some(next) = next else { return Ok(()) };
    if notices.is_empty() && !is_due {
        return Ok(());
    }
    let mut told: HashMap<&str, usize> = HashMap::new();
    for frame in notices {
        let name = match &frame.what {
            What::Updated(uri) | What::ListChanged(uri) => uri,
            What::Opening | What::Bookmark => continue,
        };
        *told.entry(name).or_default() += 1;
    }
    if let Some((name, count)) = told.iter().find(|(_, count)| **count > 1) {
        return Err(format!("a gap told of {name} {count} times"));
    }
    let beyond = next.id.unwrap_or_default() >> 16;
    let missing = view.wanted.intervals.iter().find(|interval| {
        let was_held = if is_first {
            connection.held.contains(&interval.uri)
        } else {
            matches!(cursor, Start::After(id) if interval.since <= id >> 16)
        };
        let is_active =
            interval.until.is_none() || interval.unasked_until.is_some_and(|until| next.at < until);
        was_held && is_active && interval.since <= beyond && !told.contains_key(&*interval.uri)
    });
    if let Some(interval) = missing {
        return Err(format!(
            "{cursor:?} is below the log ({oldest_before} to {oldest_after}), and {} was not told before {}",
            interval.uri,
            next.id.map_or_else(String::new, shown)
        ));
    }
    match LISTS.iter().find(|list| is_session && !told.contains_key(**list)) {
        Some(list) => Err(format!(
            "a gap did not tell of {list} before {:?}",
            next.id.map(shown)
        )),
        None => Ok(()),
    }
}
