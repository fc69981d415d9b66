//! One validator per guarantee: what a session saw, compared with what the log says.

use std::collections::{BTreeMap, HashSet};

use proto::feed::v1::Entry;
use proto::feed::v1::entry::Body;

use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id};

/// What one session saw over all its connections, in order.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it subscribed, and the revision at which that became effective.
    pub subscriptions: Vec<(Watched, u64)>,
    /// Each notice: its URI, its id if it had one.
    pub notices: Vec<(String, Option<u64>)>,
}

/// A table of the database `data`, or one of its records, and how the session spells it.
#[derive(Clone, Debug)]
pub struct Watched {
    pub table: &'static str,
    pub key: Option<String>,
    pub uri: String,
}

impl Seen {
    fn ids(&self) -> impl Iterator<Item = u64> {
        self.notices.iter().filter_map(|(_, id)| *id)
    }
}

/// Returns what a session must be told up to this revision: the ids of the frames, and their URIs.
pub fn expected(seen: &Seen, log: &[Entry], until: u64) -> BTreeMap<u64, String> {
    let mut expected = BTreeMap::new();
    for entry in log.iter().filter(|entry| entry.revision <= until) {
        let Some(Body::Change(change)) = &entry.body else {
            continue;
        };
        for (watched, since) in &seen.subscriptions {
            let is_it = watched.key.as_ref().is_none_or(|key| *key == change.key);
            if watched.table == change.table && is_it && entry.revision > *since {
                let slot = if watched.key.is_some() {
                    RECORD_SLOT
                } else {
                    TABLE_SLOT
                };
                expected.insert(event_id(entry.revision, slot), watched.uri.clone());
            }
        }
    }
    expected
}

/// *ordered*: ids rise, across reconnects and instances.
pub fn ordered(seen: &Seen) -> Result<(), String> {
    let ids: Vec<u64> = seen.ids().collect();
    match ids.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => Err(format!("{} came after {}", pair[1], pair[0])),
        None => Ok(()),
    }
}

/// *unique*: no frame with an id twice; here every resume is from the last one.
pub fn unique(seen: &Seen) -> Result<(), String> {
    let mut ids = HashSet::new();
    match seen.ids().find(|id| !ids.insert(*id)) {
        Some(id) => Err(format!("{id} came twice")),
        None => Ok(()),
    }
}

/// *reliable*: every change after the subscription is noticed; singly, since nothing was folded here.
pub fn reliable(seen: &Seen, expected: &BTreeMap<u64, String>) -> Result<(), String> {
    let ids: HashSet<u64> = seen.ids().collect();
    let missing: Vec<&u64> = expected.keys().filter(|id| !ids.contains(id)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("missing {missing:?}"))
    }
}

/// *resumable*: a cursor goes on with exactly what was missed, so no gap is told while the log reaches back.
pub fn resumable(seen: &Seen) -> Result<(), String> {
    match seen.notices.iter().find(|(_, id)| id.is_none()) {
        Some((uri, _)) => Err(format!("a gap was told: {uri}")),
        None => Ok(()),
    }
}

/// *filtered*: nothing is told that was not subscribed, and under no other URI.
pub fn filtered(seen: &Seen, expected: &BTreeMap<u64, String>) -> Result<(), String> {
    let foreign = seen
        .notices
        .iter()
        .find(|(uri, id)| id.is_some_and(|id| expected.get(&id) != Some(uri)));
    match foreign {
        Some(notice) => Err(format!("not subscribed: {notice:?}")),
        None => Ok(()),
    }
}

/// *atomic*: the changes of one commit are contiguous, and each knows where it ends.
pub fn atomic(log: &[Entry]) -> Result<(), String> {
    for pair in log.windows(2) {
        let (one, next) = (&pair[0], &pair[1]);
        let goes_on = one.commit_end != one.revision;
        if one.commit_end < one.revision || goes_on != (next.commit_end == one.commit_end) {
            return Err(format!(
                "the commit of {} ends at {}, the next at {}",
                one.revision, one.commit_end, next.commit_end
            ));
        }
        if next.commit_time_ms < one.commit_time_ms {
            return Err(format!("time goes back at {}", next.revision));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proto::feed::v1::entry::Body;
    use proto::feed::v1::{Change, Entry};

    use super::{Seen, Watched, atomic, expected, filtered, ordered, reliable, resumable, unique};

    fn entry(revision: u64, commit_end: u64, key: &str) -> Entry {
        let change = Change {
            table: "Item".into(),
            key: key.into(),
            ..Default::default()
        };
        Entry {
            revision,
            commit_end,
            body: Some(Body::Change(change)),
            ..Default::default()
        }
    }

    fn seen(notices: &[(&str, Option<u64>)]) -> Seen {
        let watched = Watched {
            table: "Item",
            key: Some("7".into()),
            uri: "u".into(),
        };
        let notices = notices.iter().map(|(uri, id)| ((*uri).to_owned(), *id)).collect();
        Seen {
            subscriptions: vec![(watched, 1)],
            notices,
        }
    }

    #[test]
    fn each_validator_finds_its_violation_and_nothing_else() {
        let log = [
            entry(1, 1, "7"),
            entry(2, 3, "7"),
            entry(3, 3, "8"),
            entry(4, 4, "7"),
        ];
        let [first, second] = [(2 << 16) | 1, (4 << 16) | 1];
        let good = seen(&[("u", Some(first)), ("u", Some(second))]);
        let wanted = expected(&good, &log, 4);
        assert_eq!(wanted.keys().copied().collect::<Vec<_>>(), [first, second]);
        let verdicts = |seen: &Seen| {
            let all = [
                ("ordered", ordered(seen)),
                ("unique", unique(seen)),
                ("reliable", reliable(seen, &wanted)),
                ("resumable", resumable(seen)),
                ("filtered", filtered(seen, &wanted)),
            ];
            all.into_iter()
                .filter(|(_, verdict)| verdict.is_err())
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(verdicts(&good), [""; 0]);
        assert_eq!(
            verdicts(&seen(&[("u", Some(second)), ("u", Some(first))])),
            ["ordered"]
        );
        assert_eq!(
            verdicts(&seen(&[
                ("u", Some(first)),
                ("u", Some(first)),
                ("u", Some(second))
            ])),
            ["unique"]
        );
        assert_eq!(verdicts(&seen(&[("u", Some(second))])), ["reliable"]);
        assert_eq!(
            verdicts(&seen(&[("u", Some(first)), ("u", None), ("u", Some(second))])),
            ["resumable"]
        );
        assert_eq!(
            verdicts(&seen(&[("u", Some(first)), ("v", Some(second))])),
            ["filtered"]
        );
        assert_eq!(
            verdicts(&seen(&[
                ("u", Some(first)),
                ("u", Some(3 << 16)),
                ("u", Some(second))
            ])),
            ["filtered"]
        );
    }

    #[test]
    fn a_commit_that_is_cut_or_mixed_is_not_atomic() {
        atomic(&[entry(1, 1, "7"), entry(2, 3, "7"), entry(3, 3, "8")]).unwrap();
        atomic(&[entry(1, 2, "7"), entry(2, 3, "7"), entry(3, 3, "8")]).unwrap_err();
        atomic(&[entry(1, 3, "7"), entry(2, 2, "7"), entry(3, 3, "8")]).unwrap_err();
        atomic(&[entry(2, 1, "7"), entry(3, 3, "8")]).unwrap_err();
    }
}
