//! *reliable*, *resumable*, *bookmarkable*: nothing that should have been noticed is missing.
//!
//! A change is noticed by its own frame, by the notice of a gap that was told after it, or, where more were missed than are
//! sent singly, by a later frame of the same URI. Whether that was so is computed from the log: a fold without need is a loss.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{View, shown};
use crate::guarantees::history::{Asked, Body, Frame, Start, What};
use crate::guarantees::ledger::Interval;

/// Something that should have been noticed and was not.
struct Missing {
    guarantee: &'static str,
    what: String,
}

pub(super) fn reliable(view: &View<'_>) -> Vec<String> {
    let mut violations = of("reliable", view);
    violations.extend(late_subscriptions(view));
    violations
}

pub(super) fn resumable(view: &View<'_>) -> Vec<String> {
    of("resumable", view)
}

/// A cursor that moves on without traffic says that everything up to it was written, and only goes forward.
pub(super) fn bookmarkable(view: &View<'_>) -> Vec<String> {
    let mut violations = of("bookmarkable", view);
    for (index, connection) in view.history.connections.iter().enumerate() {
        let mut last = match connection.start {
            Start::After(cursor) => cursor,
            Start::Absent => 0,
        };
        for frame in &connection.frames {
            let Some(id) = frame.id else { continue };
            if frame.what == What::Bookmark && id >> 16 <= last >> 16 {
                violations.push(format!(
                    "connection {index}: the bookmark {} tells nothing new after {}",
                    shown(id),
                    shown(last)
                ));
            }
            last = id;
        }
    }
    violations
}

fn of(guarantee: &str, view: &View<'_>) -> Vec<String> {
    let missing = missing(view).into_iter();
    missing
        .filter(|one| one.guarantee == guarantee)
        .map(|one| one.what)
        .collect()
}

/// What a client was noticed of, and when.
struct Noticed<'a> {
    /// Each frame with an id, by when it came: its connection, its place there, the frame.
    frames: Vec<(usize, usize, &'a Frame)>,
    /// When each id of a notice came first.
    first: HashMap<u64, Instant>,
    /// The notices of gaps: of which URI, when, and up to which revision they count.
    gaps: Vec<(&'a Arc<str>, Instant, u64)>,
}

impl<'a> Noticed<'a> {
    fn new(view: &View<'a>) -> Noticed<'a> {
        let (mut frames, mut gaps) = (Vec::new(), Vec::new());
        let mut first: HashMap<u64, Instant> = HashMap::new();
        for (index, connection) in view.history.connections.iter().enumerate() {
            for (place, frame) in connection.frames.iter().enumerate() {
                match (&frame.what, frame.id) {
                    (_, Some(id)) => {
                        frames.push((index, place, frame));
                        if frame.updated().is_some() {
                            let earliest = first.entry(id).or_insert(frame.at);
                            *earliest = frame.at.min(*earliest);
                        }
                    }
                    (What::Updated(uri), None) => {
                        let next = connection.frames[place..].iter().find(|next| next.id.is_some());
                        let until = match next {
                            Some(Frame {
                                what: What::Opening,
                                id: Some(id),
                                ..
                            }) => id >> 16,
                            Some(_) | None => view.ledger.highest_begun_by(frame.at),
                        };
                        gaps.push((uri, frame.at, until));
                    }
                    (What::ListChanged(_) | What::Opening | What::Bookmark, None) => {}
                }
            }
        }
        frames.sort_by_key(|(index, place, frame)| (frame.at, *index, *place));
        Noticed { frames, first, gaps }
    }

    /// Whether a gap was told for this URI by then that counts for this id.
    fn was_told(&self, uri: &Arc<str>, id: u64, by: Instant) -> bool {
        self.gaps
            .iter()
            .any(|(told, at, until)| *told == uri && *at <= by && id >> 16 <= *until)
    }

    fn came_by(&self, id: u64, by: Instant) -> bool {
        self.first.get(&id).is_some_and(|at| *at <= by)
    }
}

fn missing(view: &View<'_>) -> Vec<Missing> {
    let noticed = Noticed::new(view);
    let mut of_interval: Vec<Vec<u64>> = vec![Vec::new(); view.wanted.intervals.len()];
    for (id, interval) in &view.wanted.ids {
        of_interval[*interval].push(*id);
    }
    let mut missing = Vec::new();
    for (interval, ids) in view.wanted.intervals.iter().zip(&of_interval) {
        between(view, &noticed, interval, ids, &mut missing);
        behind_positions(&noticed, interval, ids, &mut missing);
        at_the_end(view, &noticed, interval, ids, &mut missing);
    }
    missing
}

/// Who was told of a change was told of those before it.
fn between(
    view: &View<'_>,
    noticed: &Noticed<'_>,
    interval: &Interval,
    ids: &[u64],
    missing: &mut Vec<Missing>,
) {
    let Some(newest_that_came) = ids.iter().rposition(|id| noticed.first.contains_key(id)) else {
        return;
    };
    for id in ids[..newest_that_came].iter().copied() {
        if noticed.first.contains_key(&id) {
            continue;
        }
        // Later ones of its URI came, so what told of a gap did so before them or not at all.
        let later = ids.iter().filter(|later| **later > id);
        let Some(next) = later.filter_map(|later| noticed.first.get(later)).min() else {
            continue;
        };
        if noticed.was_told(&interval.uri, id, *next) {
            continue;
        }
        let Some((index, place, _)) = noticed
            .frames
            .iter()
            .find(|(_, _, frame)| frame.updated().is_some() && frame.id > Some(id))
        else {
            continue;
        };
        if let Err(how) = folded(view, *index, *place) {
            let connection = &view.history.connections[*index];
            let was_before = id >> 16 <= view.ledger.highest_begun_by(connection.asked);
            let is_resumed = matches!(connection.start, Start::After(cursor) if cursor < id);
            missing.push(Missing {
                guarantee: if was_before && is_resumed {
                    "resumable"
                } else {
                    "reliable"
                },
                what: format!(
                    "{} of {} is missing on connection {index} ({:?}), whose frame {place} is beyond it; {how}",
                    shown(id),
                    interval.uri,
                    connection.start
                ),
            });
        }
    }
}

/// Says whether the frame at this place may be one of a folding pass, and if not, how many frames there were for one at most.
fn folded(view: &View<'_>, index: usize, place: usize) -> Result<(), String> {
    let connection = &view.history.connections[index];
    // A pass sends one frame for each URI at most; what is further back, or a position, was before it.
    let mut left = view.wanted.intervals.len();
    let mut begin = match connection.start {
        Start::After(cursor) => cursor,
        Start::Absent => newest_open(view, connection.frames[place].id.unwrap_or_default()),
    };
    for frame in connection.frames[..place].iter().rev() {
        let Some(id) = frame.id else { continue };
        if frame.updated().is_none() || left == 0 {
            begin = id;
            break;
        }
        left -= 1;
    }
    let until = view.ledger.highest_begun_by(connection.frames[place].at);
    let count = view
        .wanted
        .ids
        .iter()
        .filter(|(id, _)| *id > begin && id >> 16 <= until)
        .count();
    let most = view.ledger.bounds.catch_up;
    if count > most {
        Ok(())
    } else {
        Err(format!(
            "between {} and {until} there were {count}, and {most} are sent singly",
            shown(begin)
        ))
    }
}

/// The id of the newest open of the session before this frame.
fn newest_open(view: &View<'_>, id: u64) -> u64 {
    let crate::guarantees::history::Kind::Session { id: session, .. } = &view.history.kind else {
        return 0;
    };
    let opens = view
        .ledger
        .of_session(session)
        .filter(|entry| matches!(entry.body, Body::Opened { .. }));
    opens
        .map(|entry| entry.revision << 16)
        .filter(|open| *open < id)
        .max()
        .unwrap_or_default()
}

/// An opening block and a bookmark say that everything up to them was written.
fn behind_positions(noticed: &Noticed<'_>, interval: &Interval, ids: &[u64], missing: &mut Vec<Missing>) {
    for (index, _, frame) in &noticed.frames {
        let guarantee = match frame.what {
            What::Opening => "resumable",
            What::Bookmark => "bookmarkable",
            What::Updated(_) | What::ListChanged(_) => continue,
        };
        let is_active =
            interval.until.is_none() || interval.unasked_until.is_some_and(|until| frame.at < until);
        let position = frame.id.unwrap_or_default();
        let count = ids.partition_point(|id| *id <= position);
        let Some(newest) = count.checked_sub(1).map(|last| ids[last]).filter(|_| is_active) else {
            continue;
        };
        if !noticed.came_by(newest, frame.at) && !noticed.was_told(&interval.uri, newest, frame.at) {
            missing.push(Missing {
                guarantee,
                what: format!(
                    "{} of {} did not come before the position {} on connection {index}",
                    shown(newest),
                    interval.uri,
                    shown(position)
                ),
            });
        }
    }
}

/// In the end the newest change of everything was noticed.
fn at_the_end(
    view: &View<'_>,
    noticed: &Noticed<'_>,
    interval: &Interval,
    ids: &[u64],
    missing: &mut Vec<Missing>,
) {
    let Some(until) = view.history.complete_until else {
        return;
    };
    if interval.until.is_some() {
        return;
    }
    let count = ids.partition_point(|id| id >> 16 <= until);
    let Some(newest) = count.checked_sub(1).map(|last| ids[last]) else {
        return;
    };
    let was_told = noticed
        .gaps
        .iter()
        .any(|(told, _, until)| **told == interval.uri && newest >> 16 <= *until);
    if !noticed.first.contains_key(&newest) && !was_told {
        missing.push(Missing {
            guarantee: "reliable",
            what: format!("{} of {} never came", shown(newest), interval.uri),
        });
    }
}

/// What is committed after the answer to a subscribe is noticed, so the subscription stands before it in the log.
fn late_subscriptions(view: &View<'_>) -> Vec<String> {
    let mut violations = Vec::new();
    for call in &view.history.calls {
        let (Asked::Subscribe, Some(answered)) = (call.what, call.answered) else {
            continue;
        };
        let Some(begun_after) = view.ledger.lowest_begun_after(answered) else {
            continue;
        };
        let mut intervals = view.wanted.intervals.iter();
        if !intervals.any(|interval| interval.uri == call.uri && interval.since < begun_after) {
            violations.push(format!(
                "the subscribe of {} was answered before {begun_after} was begun, and is not in the log before it",
                call.uri
            ));
        }
    }
    violations
}
