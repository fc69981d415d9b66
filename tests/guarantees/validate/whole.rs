//! *atomic*: a commit is seen as a whole. *bounded*: memory is a function of configured limits.

use std::collections::HashMap;

use crate::guarantees::history::{Body, Entry, History};
use crate::guarantees::ledger::Ledger;

/// The changes of a commit are contiguous and in order, each commit is there once, and who was told of one change reads all.
pub(super) fn atomic(ledger: &Ledger, histories: &[History]) -> Vec<String> {
    let mut violations = Vec::new();
    violations.extend(contiguous(&ledger.entries));
    violations.extend(once(ledger));
    for history in histories {
        for read in &history.reads {
            let end = ledger.commit_end(read.after >> 16);
            let Some(wanted) = ledger.newest_change(&read.watched, end) else {
                continue;
            };
            let is_new_enough = match read.found {
                Some(revision) => revision >= wanted,
                None => ledger.is_removed_from(&read.watched, wanted),
            };
            if !is_new_enough {
                violations.push(format!(
                    "{} was told of {}, whose commit ends at {end}, and read {:?} at {:?}; its change is {wanted}",
                    history.who,
                    read.after >> 16,
                    read.watched,
                    read.found
                ));
            }
        }
    }
    violations
}

fn contiguous(entries: &[Entry]) -> Vec<String> {
    let mut violations = Vec::new();
    for pair in entries.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        if next.revision != one.revision + 1 {
            violations.push(format!("{} follows {} in the log", next.revision, one.revision));
        }
        let goes_on = one.commit_end != one.revision;
        if one.commit_end < one.revision || goes_on != (next.commit_end == one.commit_end) {
            violations.push(format!(
                "the commit of {} ends at {}, the next at {}",
                one.revision, one.commit_end, next.commit_end
            ));
        }
        if next.time_ms < one.time_ms {
            violations.push(format!("time goes back at {}", next.revision));
        }
    }
    violations
}

/// Each commit that was acknowledged is in the log as it was asked for, and no change is there of which nobody knows.
fn once(ledger: &Ledger) -> Vec<String> {
    let mut violations = Vec::new();
    let Some(first) = ledger.entries.first().map(|entry| entry.revision) else {
        return violations;
    };
    let mut known: HashMap<u64, ()> = HashMap::new();
    for commit in &ledger.commits {
        let Some((_, end)) = commit.acknowledged else {
            continue;
        };
        let begin = end + 1 - commit.changes.len() as u64;
        for (revision, change) in (begin..).zip(&commit.changes) {
            known.insert(revision, ());
            let entry = revision
                .checked_sub(first)
                .and_then(|index| ledger.entries.get(index as usize));
            // Acknowledged after the log was read, while the run was under way.
            let Some(entry) = entry else { continue };
            let is_it = matches!(&entry.body, Body::Change { watched, .. } if watched == change);
            if !is_it || entry.commit_end != end {
                violations.push(format!(
                    "the commit that was acknowledged at {end} should have {change:?} at {revision}, there is {entry:?}"
                ));
            }
        }
    }
    if ledger.is_whole {
        let unknown = ledger
            .entries
            .iter()
            .find(|entry| matches!(entry.body, Body::Change { .. }) && !known.contains_key(&entry.revision));
        violations.extend(unknown.map(|entry| format!("nobody committed {entry:?}")));
    }
    violations
}

/// No gateway took more memory than its limits say.
pub(super) fn bounded(ledger: &Ledger, _histories: &[History]) -> Vec<String> {
    let most = ledger.bounds.memory_bytes;
    ledger
        .memory
        .iter()
        .filter(|memory| memory.peak_bytes.saturating_sub(memory.baseline_bytes) > most)
        .map(|memory| {
            format!(
                "{} grew from {} to {} bytes, by more than {most}",
                memory.who, memory.baseline_bytes, memory.peak_bytes
            )
        })
        .collect()
}
