//! The calls that read the log.

use proto::feed::v1::{
    LatestForRequest, LatestForResponse, ReadLogRequest, ReadLogResponse, Target as TargetMessage,
};

use super::request::{admit, find_targets, invalid};
use crate::access::{Action, Object};
use crate::entry::decode_with_values;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{LogQuery, StoreError, Target};

/// The most targets of a call (feed.proto).
const TARGETS_MAX: usize = 10_000;
/// The most entries of a page of the log, and how many it has if the request does not say (feed.proto).
const PAGE_ENTRIES_MAX: u32 = 10_000;
const PAGE_ENTRIES_DEFAULT: u32 = 1_000;
/// How large a page of the log becomes.
const PAGE_LIMIT_BYTES: usize = 1024 * 1024;
/// How many entries a call looks at, where it has to look at each: some ten milliseconds.
pub(super) const SCAN_LIMIT: usize = 50_000;

pub(super) async fn read_log(feed: &Feed, request: ReadLogRequest) -> Result<ReadLogResponse, Refusal> {
    admit(feed, &request.feed, request.principal, Action::Read, Object::Feed)?;
    if request.max_entries > PAGE_ENTRIES_MAX {
        return Err(invalid("max_entries", "it is above 10000"));
    }
    if request.from_time_ms < 0 || request.until_time_ms < 0 {
        return Err(invalid("from_time_ms, until_time_ms", "one of them is negative"));
    }
    let max_entries = if request.max_entries == 0 {
        PAGE_ENTRIES_DEFAULT
    } else {
        request.max_entries
    };
    let has_targets = !request.targets.is_empty();
    let (targets, until) = resolve(feed, request.targets, request.until_revision)?;
    let query = LogQuery {
        until,
        entry_limit: usize::try_from(max_entries).unwrap_or(usize::MAX),
        limit_bytes: PAGE_LIMIT_BYTES,
        scan_limit: SCAN_LIMIT,
        with_values: request.include_values,
        targets: has_targets.then(|| targets.into_iter().flatten().collect()),
        principal: request.by_principal,
        from_time_ms: (request.from_time_ms > 0).then_some(request.from_time_ms),
        until_time_ms: (request.until_time_ms > 0).then_some(request.until_time_ms),
        ..LogQuery::after(Revision(request.after_revision))
    };
    let page = feed.reads.run(move |reader| reader.read_log(&query)).await?;
    let bounds = page.bounds;
    let entries = page.entries.into_iter().map(|entry| {
        decode_with_values(&entry.encoded, entry.before, entry.after).map_err(|_| StoreError::Damaged {
            problem: "an entry that does not parse",
            revision: entry.revision,
        })
    });
    Ok(ReadLogResponse {
        entries: entries.collect::<Result<_, _>>()?,
        progress: page.progress.0,
        head: bounds.head.0,
        oldest: bounds.oldest.0,
    })
}

pub(super) async fn latest_for(feed: &Feed, request: LatestForRequest) -> Result<LatestForResponse, Refusal> {
    admit(feed, &request.feed, request.principal, Action::Read, Object::Feed)?;
    let (targets, until) = resolve(feed, request.targets, request.until_revision)?;
    let after = Revision(request.after_revision);
    let latest = feed
        .reads
        .run(move |reader| reader.find_latest(&targets, after, until))
        .await?;
    Ok(LatestForResponse {
        revisions: latest.value.into_iter().map(|revision| revision.0).collect(),
        until_revision: latest.revision.0,
    })
}

/// Finds the targets' tables, and the revision up to which a read may look.
///
/// A table that is not there is one that never was, but only up to the head at this moment: the store may already have one
/// that is not published yet, and its changes must not be passed over.
fn resolve(
    feed: &Feed,
    targets: Vec<TargetMessage>,
    until_revision: u64,
) -> Result<(Vec<Option<Target>>, Option<Revision>), Refusal> {
    if targets.len() > TARGETS_MAX {
        return Err(invalid("targets", "there are more than 10000"));
    }
    // The head first: the catalogue is published before it.
    let head = feed.ring.head();
    let targets = find_targets(&feed.catalog(), targets);
    let until = (until_revision > 0).then_some(Revision(until_revision));
    if targets.iter().all(Option::is_some) {
        return Ok((targets, until));
    }
    Ok((targets, Some(until.map_or(head, |until| until.min(head)))))
}
