//! Finds one page of a search, and counts.
//!
//! Records are looked at along a plan. What fits goes into a collector that keeps the lowest positions and never more than a
//! page: when it is full, the highest goes out and becomes the bound above which nothing is taken any more. So memory is that
//! of a page whatever the plan, and what went out first is where the next page begins.

use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::condition::Condition;
use super::evaluate::evaluate;
use super::plan::{Order, Path, Plan, Purpose, choose, deciding_steps, refuse};
use super::position::Position;
use super::query::Query;
use super::ranges::{Ranges, successor};
use super::scan_limit::ScanLimit;
use super::sort_key::{INDEX_KEY_LIMIT_BYTES, text_of};
use super::visibility::Visibility;
use crate::catalog::json::{Json, JsonObject};
use crate::revision::Revision;
use crate::store::{
    ByteRange, Direction, IndexWalk, Interrupt, RecordRow, RecordView, Snapshot, StoreError, VisitRecord,
};

/// A search, with what its caller may see and how much may be done for it.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) query: Query,
    pub(crate) visibility: Visibility,
    /// How many records may be looked at.
    pub(crate) scan_max: u64,
}

/// Which page of a search.
#[derive(Clone, Debug)]
pub(crate) struct PageBounds {
    /// Where it begins; inclusive.
    pub(crate) start: Position,
    /// At least 1.
    pub(crate) limit: usize,
    /// A page ends before the record with which it would grow beyond this, but has at least one.
    pub(crate) limit_bytes: usize,
}

/// A page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// In the order of the search.
    pub(crate) records: Vec<FoundRecord>,
    /// Where the next page begins; `None`: this is the last.
    pub(crate) next: Option<Position>,
    /// How the records were found.
    pub(crate) plan: String,
}

/// A record of a page, as its caller may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) key: String,
    pub(crate) revision: Revision,
    pub(crate) value: Bytes,
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SearchError {
    #[error("{0}")]
    ScanLimit(ScanLimit),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Search {
    /// Finds a page, all of it in the state that the view has.
    ///
    /// # Errors
    /// `ScanLimit`, or the store failed; `Interrupted` if nobody waits any more.
    pub(crate) fn find_page(
        &self,
        view: &dyn RecordView,
        bounds: &PageBounds,
        interrupt: &Interrupt,
    ) -> Result<Snapshot<Page>, SearchError> {
        let condition = self.condition();
        let purpose = Purpose::Page(bounds.limit);
        let plan = choose(view, &self.query, &condition, purpose, self.scan_max)?;
        let plan = plan.map_err(SearchError::ScanLimit)?;
        let has_condition = condition != Condition::All(Vec::new());
        let sort = deciding_steps(&self.query);
        let is_whole = self.visibility.is_whole() && self.query.attributes.is_empty();
        let needs_object = has_condition || !sort.is_empty() || !is_whole;

        let mut collector = Collector::new(bounds);
        let mut group: Vec<u8> = Vec::new();
        let outcome = self.look(view, &plan, &bounds.start, interrupt, &mut |row| {
            let is_boundary = match plan.order {
                Order::Sorted => true,
                Order::Grouped => {
                    let is_single = sort.len() == 1 && row.sort_key.len() < INDEX_KEY_LIMIT_BYTES;
                    let is_next = is_single || group != row.sort_key;
                    if is_next {
                        group.clear();
                        group.extend_from_slice(row.sort_key);
                    }
                    is_next
                }
                Order::Unsorted => false,
            };
            if is_boundary && collector.is_complete() {
                return Ok(Look::Enough);
            }
            let object = if needs_object {
                parse(row)?
            } else {
                JsonObject::new()
            };
            if has_condition && !evaluate(&condition, &object) {
                return Ok(Look::On);
            }
            let position = Position::of(sort, &object, row.key);
            if position.bytes < bounds.start.bytes {
                return Ok(Look::On);
            }
            collector.offer(position, || FoundRecord {
                key: row.key.to_owned(),
                revision: row.revision,
                value: if is_whole {
                    Bytes::copy_from_slice(row.value)
                } else {
                    self.visibility.cut(object, &self.query.attributes)
                },
            });
            Ok(Look::On)
        })?;
        if outcome == Looked::TooMany {
            return Err(SearchError::ScanLimit(refuse(view, &self.query, self.scan_max)?));
        }
        let (records, next) = collector.finish();
        Ok(Snapshot {
            value: Page {
                records,
                next,
                plan: plan.name(has_condition, &self.visibility),
            },
            revision: view.head(),
        })
    }

    /// Counts the records that fit, in the state that the view has.
    ///
    /// # Errors
    /// As [`Search::find_page`].
    pub(crate) fn count(
        &self,
        view: &dyn RecordView,
        interrupt: &Interrupt,
    ) -> Result<Snapshot<u64>, SearchError> {
        let revision = view.head();
        let condition = self.condition();
        if condition == Condition::All(Vec::new()) {
            return Ok(Snapshot {
                value: view.count_records(self.query.table.id)?,
                revision,
            });
        }
        let plan = choose(view, &self.query, &condition, Purpose::Count, self.scan_max)?;
        let plan = plan.map_err(SearchError::ScanLimit)?;
        let mut value = 0;
        match &plan.path {
            Path::Index(index) if plan.ranges.is_exact => {
                for range in &plan.ranges.ranges {
                    interrupt.check()?;
                    value += view.count_in_index(index.id, range, u64::MAX)?;
                }
            }
            Path::Index(_) | Path::Keys => {
                let start = Position::default();
                let outcome = self.look(view, &plan, &start, interrupt, &mut |row| {
                    value += u64::from(evaluate(&condition, &parse(row)?));
                    Ok(Look::On)
                })?;
                if outcome == Looked::TooMany {
                    return Err(SearchError::ScanLimit(refuse(view, &self.query, self.scan_max)?));
                }
            }
        }
        Ok(Snapshot { value, revision })
    }

    /// Returns all that must hold: the condition and the row filter.
    fn condition(&self) -> Condition {
        let parts = [&self.query.condition, &self.visibility.filter];
        Condition::All(parts.into_iter().flatten().cloned().collect())
    }

    /// Looks at the records of a plan from a position on.
    fn look(
        &self,
        view: &dyn RecordView,
        plan: &Plan,
        start: &Position,
        interrupt: &Interrupt,
        look: &mut dyn FnMut(&RecordRow<'_>) -> Result<Look, StoreError>,
    ) -> Result<Looked, StoreError> {
        let mut looked = 0;
        let mut outcome = Looked::All;
        let mut visit = |row: &RecordRow<'_>| {
            interrupt.check()?;
            looked += 1;
            match look(row)? {
                // What was found out by the record one above the limit needed no look into it.
                Look::On if looked <= self.scan_max => Ok(ControlFlow::Continue(())),
                Look::On => {
                    outcome = Looked::TooMany;
                    Ok(ControlFlow::Break(()))
                }
                Look::Enough => Ok(ControlFlow::Break(())),
            }
        };
        self.walk(view, plan, start, &mut visit)?;
        Ok(outcome)
    }

    fn walk(
        &self,
        view: &dyn RecordView,
        plan: &Plan,
        start: &Position,
        visit: &mut VisitRecord<'_>,
    ) -> Result<(), StoreError> {
        let table = self.query.table.id;
        let bounds = start_bounds(plan, start, deciding_steps(&self.query).len());
        let ranges = plan.ranges.intersect(&bounds.range);
        let in_order: Box<dyn Iterator<Item = &ByteRange>> = match plan.direction {
            Direction::Rising => Box::new(ranges.ranges.iter()),
            Direction::Falling => Box::new(ranges.ranges.iter().rev()),
        };
        for range in in_order {
            let flow = match &plan.path {
                Path::Keys => view.walk_records(table, range, plan.direction, visit)?,
                Path::Index(index) => {
                    let walk = IndexWalk {
                        index: index.id,
                        table,
                        range,
                        first: bounds
                            .first
                            .as_ref()
                            .map(|(sort_key, key)| (sort_key.as_slice(), *key)),
                        direction: plan.direction,
                    };
                    view.walk_index(&walk, visit)?
                }
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Where a walk begins.
struct StartBounds<'a> {
    range: Ranges,
    /// The first sort key, and from which key on.
    first: Option<(Vec<u8>, &'a [u8])>,
}

/// Returns the part of a plan's path that is not before a position; a bit more where that is simpler.
fn start_bounds<'a>(plan: &Plan, start: &'a Position, steps: usize) -> StartBounds<'a> {
    let everything = StartBounds {
        range: Ranges::everything(true),
        first: None,
    };
    if start.bytes.is_empty() {
        return everything;
    }
    let from = |lower: Vec<u8>| Ranges::one(ByteRange { lower, upper: None });
    let below = |upper: Option<Vec<u8>>| {
        Ranges::one(ByteRange {
            lower: Vec::new(),
            upper,
        })
    };
    match (&plan.path, plan.order, plan.direction) {
        (_, Order::Unsorted, _) => everything,
        (Path::Keys, _, Direction::Rising) => StartBounds {
            range: from(start.bytes.clone()),
            first: None,
        },
        (Path::Keys, _, Direction::Falling) => StartBounds {
            range: below(successor(&text_of(&start.first_step(true).0))),
            first: None,
        },
        // Within one value, by key.
        (Path::Index(_), Order::Sorted, _) => {
            let value = plan.ranges.ranges.first().map(|range| range.lower.clone());
            StartBounds {
                first: value.map(|value| (value, start.bytes.as_slice())),
                ..everything
            }
        }
        (Path::Index(_), Order::Grouped, direction) => {
            let (mut first, rest) = start.first_step(direction == Direction::Falling);
            let is_whole = start.has_first_step() && first.len() < INDEX_KEY_LIMIT_BYTES;
            first.truncate(INDEX_KEY_LIMIT_BYTES);
            StartBounds {
                range: match direction {
                    Direction::Rising => from(first.clone()),
                    Direction::Falling => below(successor(&first)),
                },
                first: (is_whole && steps == 1).then_some((first, rest)),
            }
        }
    }
}

/// What to do after a look at a record.
enum Look {
    On,
    Enough,
}

/// How a row of looks ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    /// At all that had to be looked at.
    All,
    TooMany,
}

fn parse(row: &RecordRow<'_>) -> Result<JsonObject, StoreError> {
    match Json::parse(row.value) {
        Ok(Json::Object(object)) => Ok(object),
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => {
            Err(StoreError::Damaged {
                problem: "a record that is no JSON object",
                revision: row.revision,
            })
        }
    }
}

/// Keeps the lowest records, up to a page of them.
struct Collector {
    /// The highest position comes out first.
    kept: BinaryHeap<Kept>,
    kept_bytes: usize,
    limit: usize,
    limit_bytes: usize,
    /// The lowest position that went out; nothing at or above it is taken.
    ceiling: Option<Position>,
}

struct Kept {
    position: Position,
    record: FoundRecord,
}

impl Kept {
    fn size_bytes(&self) -> usize {
        self.position.bytes.len() + self.record.key.len() + self.record.value.len()
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.position == other.position
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Kept) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Kept) -> std::cmp::Ordering {
        self.position.cmp(&other.position)
    }
}

impl Collector {
    fn new(bounds: &PageBounds) -> Collector {
        Collector {
            kept: BinaryHeap::new(),
            kept_bytes: 0,
            limit: bounds.limit.max(1),
            limit_bytes: bounds.limit_bytes,
            ceiling: None,
        }
    }

    /// Takes a record if it is among the lowest.
    fn offer(&mut self, position: Position, record: impl FnOnce() -> FoundRecord) {
        if self.ceiling.as_ref().is_some_and(|ceiling| position >= *ceiling) {
            return;
        }
        let kept = Kept {
            position,
            record: record(),
        };
        self.kept_bytes += kept.size_bytes();
        self.kept.push(kept);
        while self.kept.len() > 1 && (self.kept.len() > self.limit || self.kept_bytes > self.limit_bytes) {
            let Some(highest) = self.kept.pop() else { return };
            self.kept_bytes -= highest.size_bytes();
            self.ceiling = Some(highest.position);
        }
    }

    /// Whether nothing that comes later in the order would be taken.
    fn is_complete(&self) -> bool {
        self.ceiling.is_some()
    }

    fn finish(self) -> (Vec<FoundRecord>, Option<Position>) {
        let kept = self.kept.into_sorted_vec();
        let next = match (&self.ceiling, kept.last()) {
            (Some(ceiling), Some(last)) => Some(ceiling.shortened_after(&last.position)),
            (Some(ceiling), None) => Some(ceiling.clone()),
            (None, _) => None,
        };
        (kept.into_iter().map(|kept| kept.record).collect(), next)
    }
}
