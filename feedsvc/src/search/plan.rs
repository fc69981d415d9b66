//! Chooses how the records of a search are found: by key, through an index, or one after the other.
//!
//! Whatever the choice, every record that is looked at is checked against the whole condition and stands at the same
//! position, so a plan may change from one page to the next.

use super::condition::{Comparator, Comparison, Condition};
use super::query::{Query, SortStep};
use super::ranges::{Ranges, index_ranges, key_ranges};
use super::scan_limit::ScanLimit;
use super::sort_key::INDEX_KEY_LIMIT_BYTES;
use super::visibility::Visibility;
use crate::catalog::Scalar;
use crate::store::{AttributeIndex, Direction, IndexState, RecordView, StoreError};

/// How records are found.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) path: Path,
    pub(super) ranges: Ranges,
    pub(super) direction: Direction,
    pub(super) order: Order,
    /// How many records lie on the path; counted up to one more than may be looked at.
    pub(super) entries: u64,
}

/// What is walked along.
#[derive(Clone, Debug)]
pub(super) enum Path {
    Keys,
    Index(AttributeIndex),
}

/// In which order records come along the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// That of the search.
    Sorted,
    /// Those of one sort key come together, and the sort keys in the order of the search.
    Grouped,
    /// Any.
    Unsorted,
}

/// What a plan is chosen for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// A page of so many records.
    Page(usize),
    /// All of them, in any order.
    Count,
}

impl Plan {
    /// Names the plan, as the answer of a search does (feed.proto, `SearchResponse.plan`).
    pub(super) fn name(&self, has_condition: bool, visibility: &Visibility) -> String {
        match &self.path {
            Path::Index(index) if visibility.shows(&index.attribute) => format!("index:{}", index.attribute),
            // A row filter may use an attribute that its principal may not know of.
            Path::Index(_) => "index".to_owned(),
            Path::Keys if !self.ranges.is_everything() => "key".to_owned(),
            Path::Keys if self.order == Order::Sorted && !has_condition => "key".to_owned(),
            Path::Keys => "scan".to_owned(),
        }
    }

    /// About how many records will be looked at, if `matching` fit the condition.
    fn cost(&self, purpose: Purpose, matching: u64) -> u64 {
        match (self.order, purpose) {
            (Order::Sorted | Order::Grouped, Purpose::Page(limit)) => {
                let wanted = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
                (wanted.saturating_mul(self.entries) / matching.max(1)).min(self.entries)
            }
            (Order::Unsorted, _) | (_, Purpose::Count) => self.entries,
        }
    }
}

/// Returns the steps that decide: none where the order is that of the keys.
pub(super) fn deciding_steps(query: &Query) -> &[SortStep] {
    match (query.sort.first(), query.table.find_primary_key()) {
        // Keys are unique, so nothing behind the primary key decides; a string is its own key.
        (Some(first), Some((primary_key, Scalar::String))) if first.attribute.as_str() == primary_key => {
            if first.descending {
                &query.sort[..1]
            } else {
                &[]
            }
        }
        (_, _) => &query.sort,
    }
}

/// Chooses the plan that looks at the fewest records.
///
/// `condition` is all that must hold. `Err` inside: every plan has to look at more than `scan_max` records.
pub(super) fn choose(
    view: &dyn RecordView,
    query: &Query,
    condition: &Condition,
    purpose: Purpose,
    scan_max: u64,
) -> Result<Result<Plan, ScanLimit>, StoreError> {
    let indexes = view.read_indexes(query.table.id)?;
    let mut plans = vec![key_plan(view, query, condition, scan_max)?];
    for index in indexes.iter().filter(|index| index.state == IndexState::Ready) {
        plans.extend(index_plan(view, query, condition, index, scan_max)?);
    }
    let matching = plans.iter().map(|plan| plan.entries).min().unwrap_or(0);
    let best = plans.into_iter().min_by_key(|plan| plan.cost(purpose, matching));
    let refused = || ScanLimit {
        table: query.table.name.clone(),
        limit: scan_max,
        missing: missing_indexes(query, &indexes, None),
        building: missing_indexes(query, &indexes, Some(IndexState::Building)),
    };
    let Some(best) = best else {
        return Ok(Err(refused()));
    };
    let is_counted_by_entries = matches!(best.path, Path::Index(_)) && best.ranges.is_exact;
    let looks_at_all = match purpose {
        Purpose::Page(_) => best.order == Order::Unsorted,
        Purpose::Count => !is_counted_by_entries,
    };
    if looks_at_all && best.entries > scan_max {
        return Ok(Err(refused()));
    }
    Ok(Ok(best))
}

/// Returns what to say when a plan turns out to look at too many records.
pub(super) fn refuse(view: &dyn RecordView, query: &Query, scan_max: u64) -> Result<ScanLimit, StoreError> {
    let indexes = view.read_indexes(query.table.id)?;
    Ok(ScanLimit {
        table: query.table.name.clone(),
        limit: scan_max,
        missing: missing_indexes(query, &indexes, None),
        building: missing_indexes(query, &indexes, Some(IndexState::Building)),
    })
}

fn key_plan(
    view: &dyn RecordView,
    query: &Query,
    condition: &Condition,
    scan_max: u64,
) -> Result<Plan, StoreError> {
    let table = query.table.id;
    let ranges = match query.table.find_primary_key() {
        Some((primary_key, scalar)) => key_ranges(condition, primary_key, scalar),
        None => Ranges::everything(false),
    };
    let (order, direction) = match (deciding_steps(query), query.table.find_primary_key()) {
        ([], _) => (Order::Sorted, Direction::Rising),
        ([step], Some((primary_key, Scalar::String))) if step.attribute.as_str() == primary_key => {
            (Order::Sorted, Direction::Falling)
        }
        (_, _) => (Order::Unsorted, Direction::Rising),
    };
    let entries = if ranges.is_everything() {
        view.count_records(table)?
    } else {
        count_entries(&ranges, scan_max, |range, limit| {
            view.count_in_keys(table, range, limit)
        })?
    };
    Ok(Plan {
        path: Path::Keys,
        ranges,
        direction,
        order,
        entries,
    })
}

/// Returns the plan through an index, if it is worth anything.
fn index_plan(
    view: &dyn RecordView,
    query: &Query,
    condition: &Condition,
    index: &AttributeIndex,
    scan_max: u64,
) -> Result<Option<Plan>, StoreError> {
    let ranges = index_ranges(condition, &index.attribute);
    let (order, direction) = match deciding_steps(query) {
        [first, ..] if first.attribute.as_str() == index.attribute => match first.descending {
            true => (Order::Grouped, Direction::Falling),
            false => (Order::Grouped, Direction::Rising),
        },
        // Within a value, entries have the order of their keys.
        [] if is_one_value(&ranges) => (Order::Sorted, Direction::Rising),
        _ => (Order::Unsorted, Direction::Rising),
    };
    if ranges.is_everything() && order == Order::Unsorted {
        return Ok(None);
    }
    let entries = if ranges.is_everything() {
        view.count_records(query.table.id)?
    } else {
        count_entries(&ranges, scan_max, |range, limit| {
            view.count_in_index(index.id, range, limit)
        })?
    };
    Ok(Some(Plan {
        path: Path::Index(index.clone()),
        ranges,
        direction,
        order,
        entries,
    }))
}

fn is_one_value(ranges: &Ranges) -> bool {
    match ranges.ranges.as_slice() {
        [range] => {
            let upper = range.upper.as_deref().and_then(|upper| upper.strip_suffix(&[0]));
            upper == Some(range.lower.as_slice()) && range.lower.len() < INDEX_KEY_LIMIT_BYTES
        }
        _ => false,
    }
}

fn count_entries(
    ranges: &Ranges,
    scan_max: u64,
    count: impl Fn(&crate::store::ByteRange, u64) -> Result<u64, StoreError>,
) -> Result<u64, StoreError> {
    let enough = scan_max.saturating_add(1);
    let mut entries = 0;
    for range in &ranges.ranges {
        if entries >= enough {
            break;
        }
        entries += count(range, enough - entries)?;
    }
    Ok(entries)
}

/// Returns the attributes of a search whose index would help and is missing, or is in this state.
fn missing_indexes(query: &Query, indexes: &[AttributeIndex], state: Option<IndexState>) -> Vec<String> {
    let primary_key = query.table.find_primary_key();
    // Keys are found and sorted without an index, as far as they are texts.
    let is_sorted_by_key = |attribute: &str| primary_key == Some((attribute, Scalar::String));
    let is_found_by_key = |comparison: &Comparison| {
        primary_key.is_some_and(|(attribute, scalar)| {
            let condition = Condition::Comparison(comparison.clone());
            !key_ranges(&condition, attribute, scalar).is_everything()
        })
    };
    let sort = query.sort.first().map(|step| step.attribute.as_str());
    let sort = sort.filter(|attribute| !is_sorted_by_key(attribute));
    let compared = query.condition.iter().flat_map(Condition::comparisons);
    let compared = compared
        .filter(|comparison| match comparison.comparator {
            Comparator::Equals
            | Comparator::StartsWith
            | Comparator::GreaterThan
            | Comparator::GreaterThanEqual
            | Comparator::LessThan
            | Comparator::LessThanEqual
            | Comparator::Between
            | Comparator::In => true,
            Comparator::NotEquals | Comparator::Contains | Comparator::EndsWith => false,
        })
        .filter(|comparison| !is_found_by_key(comparison))
        .map(|comparison| comparison.attribute.as_str());
    let mut missing: Vec<String> = Vec::new();
    for attribute in compared.chain(sort) {
        let found = indexes.iter().find(|index| index.attribute == attribute);
        let is_meant = found.map(|index| index.state) == state && query.table.can_index(attribute);
        if is_meant && !missing.iter().any(|known| known == attribute) {
            missing.push(attribute.to_owned());
        }
    }
    missing
}
