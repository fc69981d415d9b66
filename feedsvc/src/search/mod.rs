//! Search: conditions on records, the order of values, and how records that fit are found.
//!
//! `condition` is the tree and what it may look like, `condition_json` its form in JSON, `evaluate` says whether it holds
//! for a record. `sort_key` gives values the bytes by which they are compared, sorted and indexed, so that these three can
//! never disagree; `number` does so for numbers, exactly, whatever their digits.
//!
//! `query` is a search held to its table, `visibility` what its caller may see. `ranges` says which part of an index a
//! condition leaves, `plan` chooses the way, `page` goes it, `position` is where a record stands in the order, and `cursor`
//! carries a position from one page to the next. `scan_limit` is the refusal of what would take too long.

#[allow(dead_code, reason = "row filters of roles bind their placeholders")]
mod condition;
#[allow(dead_code, reason = "row filters of roles are written in JSON")]
mod condition_json;
mod cursor;
mod evaluate;
mod number;
mod page;
mod plan;
mod position;
mod query;
mod ranges;
mod scan_limit;
mod sort_key;
#[cfg(test)]
mod tests;
mod visibility;

pub(crate) use condition::{AttributePath, Binding, Comparator, Comparison, Condition, ConditionFault};
pub(crate) use cursor::{CursorSeal, Fingerprint, InvalidCursor};
pub(crate) use evaluate::evaluate;
pub(crate) use page::{PageBounds, Search, SearchError};
pub(crate) use position::Position;
pub(crate) use query::{Query, SORT_STEPS_MAX, SearchedTable, SortStep};
pub(crate) use scan_limit::ScanLimit;
pub(crate) use sort_key::index_key;
pub(crate) use visibility::Visibility;
