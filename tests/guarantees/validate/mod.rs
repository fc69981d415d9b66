//! One validator per guarantee: pure functions of what clients saw and of the log, that say what was broken.
//!
//! - `order`: *ordered* and *unique*;
//! - `missed`: *reliable*, *resumable* and *bookmarkable*: what should have been noticed and was not;
//! - `told`: *told* and *filtered*: gaps, and what nobody may be told;
//! - `whole`: *atomic* and *bounded*;
//! - `damage`: the proof of the proof: good histories are damaged, and the damage must be named.
//!
//! A history that is still under way can be looked at too: then only what has come so far counts.

#[cfg(test)]
mod damage;
mod missed;
mod order;
mod told;
mod whole;

use std::fmt;

use super::history::History;
use super::ledger::{Ledger, Wanted};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub guarantee: &'static str,
    pub who: String,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URIs of slow clients are long on purpose.
        let what: Vec<&str> = self
            .what
            .split("wwwwwwww")
            .filter(|part| !part.is_empty())
            .collect();
        write!(formatter, "{}: {}: {}", self.guarantee, self.who, what.join("…"))
    }
}

/// A client's history beside what the log makes of it.
pub struct View<'a> {
    pub history: &'a History,
    pub wanted: &'a Wanted,
    pub ledger: &'a Ledger,
}

type OfClient = fn(&View<'_>) -> Vec<String>;
type OfAll = fn(&Ledger, &[History]) -> Vec<String>;

/// What is looked at for each client.
const OF_CLIENT: [(&str, OfClient); 7] = [
    ("ordered", order::ordered),
    ("unique", order::unique),
    ("reliable", missed::reliable),
    ("resumable", missed::resumable),
    ("bookmarkable", missed::bookmarkable),
    ("filtered", told::filtered),
    ("told", told::told),
];

/// What is looked at once for all.
const OF_ALL: [(&str, OfAll); 3] = [
    ("atomic", whole::atomic),
    ("bounded", whole::bounded),
    ("unique", order::fenced),
];

/// Returns everything that was broken; few of one kind and client.
pub fn violations(ledger: &Ledger, histories: &[History]) -> Vec<Violation> {
    /// More of one kind tell nothing more.
    const SHOWN: usize = 3;
    let mut violations = Vec::new();
    for history in histories {
        let wanted = ledger.wanted(history);
        let view = View {
            history,
            wanted: &wanted,
            ledger,
        };
        for (guarantee, validator) in OF_CLIENT {
            let found = validator(&view).into_iter().take(SHOWN);
            violations.extend(found.map(|what| Violation {
                guarantee,
                who: history.who.clone(),
                what,
            }));
        }
        let complaints = history.complaints.iter().take(SHOWN);
        violations.extend(complaints.map(|(guarantee, what)| Violation {
            guarantee,
            who: history.who.clone(),
            what: what.clone(),
        }));
    }
    for (guarantee, validator) in OF_ALL {
        let found = validator(ledger, histories).into_iter().take(SHOWN);
        violations.extend(found.map(|what| Violation {
            guarantee,
            who: "all".into(),
            what,
        }));
    }
    violations
}

/// Shows an event id as revision and slot.
fn shown(id: u64) -> String {
    format!("{}.{}", id >> 16, id & 0xffff)
}
