//! The report of a run: what happened, and how often. A class that did not happen was not tried, and is no pass.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::history::{Body, History, Start, What};
use super::ledger::Ledger;
use super::stand::Stand;
use super::traffic::Traffic;

/// Classes by name, with how often.
pub struct Report {
    /// What must have happened.
    pub needed: BTreeMap<String, u64>,
    /// What is worth knowing.
    pub other: BTreeMap<String, u64>,
    took: Duration,
}

/// What the gateways count, and under which name it is reported.
const COUNTED: [(&str, &str, &str); 9] = [
    (
        "resumes from the buffer",
        "tidegate_resumes_total",
        "outcome=\"buffer\"",
    ),
    (
        "resumes from the ring",
        "tidegate_resumes_total",
        "outcome=\"ring\"",
    ),
    (
        "resumes from the log",
        "tidegate_resumes_total",
        "outcome=\"log\"",
    ),
    (
        "resumes that were gaps",
        "tidegate_resumes_total",
        "outcome=\"gap\"",
    ),
    (
        "notices that were folded away",
        "tidegate_folded_notices_total",
        "",
    ),
    ("streams that were taken over", "tidegate_takeovers_total", ""),
    (
        "takeovers with frames in flight",
        "tidegate_takeovers_with_pending_total",
        "",
    ),
    ("fences refused", "tidegate_fences_refused_total", ""),
    (
        "streams that ended as too slow",
        "tidegate_stream_ends_total",
        "reason=\"slow\"",
    ),
];

impl Report {
    pub fn new(
        stand: &Stand,
        traffic: &Traffic,
        histories: &[History],
        ledger: &Ledger,
        took: Duration,
    ) -> Report {
        let mut needed: BTreeMap<String, u64> = stand.done.clone();
        for (name, counter, labels) in COUNTED {
            needed.insert(name.into(), stand.counters.sum(counter, labels) as u64);
        }
        let connections = || histories.iter().flat_map(|history| &history.connections);
        let frames = || connections().flat_map(|connection| &connection.frames);
        let of_body = |is_it: fn(&Body) -> bool| {
            ledger.entries.iter().filter(|entry| is_it(&entry.body)).count() as u64
        };
        let counts = &traffic.counts;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (name, times) in [
            ("takeovers by clients", get(&counts.takeovers)),
            ("connections cut by clients", get(&counts.cuts)),
            ("clients that stopped reading", get(&counts.stalls)),
            ("sessions deleted", get(&counts.deletes)),
            ("subscribes", get(&counts.subscribes)),
            ("unsubscribes", get(&counts.unsubscribes)),
            (
                "resumes asked for",
                connections()
                    .filter(|one| matches!(one.start, Start::After(_)))
                    .count() as u64,
            ),
            (
                "notices of gaps",
                frames()
                    .filter(|frame| frame.id.is_none() && frame.updated().is_some())
                    .count() as u64,
            ),
            (
                "bookmarks",
                frames().filter(|frame| frame.what == What::Bookmark).count() as u64,
            ),
            (
                "reads after a notice",
                histories.iter().map(|history| history.reads.len() as u64).sum(),
            ),
        ] {
            needed.insert(name.into(), times);
        }
        let other = [
            (
                "notices",
                frames().filter(|frame| frame.updated().is_some()).count() as u64,
            ),
            ("changes", of_body(|body| matches!(body, Body::Change { .. }))),
            ("commits", ledger.commits.len() as u64),
            ("opens", of_body(|body| matches!(body, Body::Opened { .. }))),
            ("histories", histories.len() as u64),
            ("requests", get(&counts.requests)),
            ("in vain", get(&counts.in_vain)),
            (
                "most memory that a gateway took in addition, MiB",
                ledger
                    .memory
                    .iter()
                    .map(|memory| memory.peak_bytes.saturating_sub(memory.baseline_bytes) >> 20)
                    .max()
                    .unwrap_or_default(),
            ),
        ];
        Report {
            needed,
            other: other
                .into_iter()
                .map(|(name, times)| (name.to_owned(), times))
                .collect(),
            took,
        }
    }

    /// Returns what did not happen.
    pub fn untried(&self) -> Vec<&str> {
        let zero = self.needed.iter().filter(|(_, times)| **times == 0);
        zero.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "took {:.1} s", self.took.as_secs_f64())?;
        for (name, times) in self.needed.iter().chain(&self.other) {
            writeln!(formatter, "{times:>8} {name}")?;
        }
        Ok(())
    }
}
