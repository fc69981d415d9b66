//! Walks the access log's hash chain from its oldest entry to its newest (rule B-15.3).

use crate::chain::ChainHash;
use crate::store::{AccessQuery, Reader, StoreError};

/// How many entries are read at a time, each page in a read transaction of its own.
const PAGE_ENTRIES: usize = 1_000;
const PAGE_LIMIT_BYTES: usize = 4 * 1024 * 1024;

/// The first entry that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessFinding {
    pub(crate) number: u64,
    pub(crate) problem: &'static str,
}

/// What a walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessVerified {
    /// How many entries fit.
    pub(crate) entries: u64,
    /// `None`: all of them do.
    pub(crate) finding: Option<AccessFinding>,
}

/// Checks that the numbers have no hole and that each hash follows from the one before, up to the newest entry at the start.
///
/// `check_goes_on` is asked before each page, and its error ends the walk. Entries that are trimmed during the walk are not looked at: what is gone is no damage.
pub(crate) fn verify(
    reader: &dyn Reader,
    check_goes_on: &dyn Fn() -> Result<(), StoreError>,
) -> Result<AccessVerified, StoreError> {
    let mut entries = 0;
    let end = reader.access_bounds()?;
    let mut position: Option<(u64, ChainHash)> = None;
    loop {
        let after = position.map_or(0, |(number, _)| number);
        if after >= end.newest {
            // The row of the bounds says what the chain must end with, as it was at the start.
            let is_whole =
                position.is_none_or(|(number, hash)| number > end.newest || hash == end.newest_hash);
            let finding = (!is_whole).then_some(AccessFinding {
                number: end.newest,
                problem: "the chain does not end with the hash that the log has of its newest entry",
            });
            return Ok(AccessVerified { entries, finding });
        }
        check_goes_on()?;
        let page = reader.read_access(&AccessQuery {
            after,
            entry_limit: PAGE_ENTRIES,
            limit_bytes: PAGE_LIMIT_BYTES,
            scan_limit: PAGE_ENTRIES,
            ..AccessQuery::default()
        })?;
        let (mut number, mut hash) = match position {
            Some((number, hash)) if number + 1 >= page.bounds.oldest => (number, hash),
            // The walk begins here, or the log was trimmed beyond it.
            Some(_) | None => (page.bounds.oldest - 1, page.bounds.base_hash),
        };
        if page.entries.is_empty() {
            let is_gone = page.bounds.oldest > end.newest;
            let finding = (!is_gone).then_some(AccessFinding {
                number: number + 1,
                problem: "the entry is missing",
            });
            return Ok(AccessVerified { entries, finding });
        }
        for entry in page.entries {
            let expected = hash.followed_by(&entry.encoded, None, None);
            let problem = if entry.number != number + 1 {
                Some("the entry is missing")
            } else if entry.hash != expected {
                Some("its hash does not follow from its bytes and the hash before")
            } else {
                None
            };
            if let Some(problem) = problem {
                let finding = AccessFinding {
                    number: number + 1,
                    problem,
                };
                return Ok(AccessVerified {
                    entries,
                    finding: Some(finding),
                });
            }
            (number, hash) = (entry.number, expected);
            entries += 1;
        }
        position = Some((number, hash));
    }
}
