//! Search: conditions on records, the order of values, and how records that fit are found.
//!
//! `condition` is the tree and what it may look like, `condition_json` its form in JSON, `evaluate` says whether it holds
//! for a record. `sort_key` gives values the bytes by which they are compared, sorted and indexed, so that these three can
//! never disagree; `number` does so for numbers, exactly, whatever their digits.

mod condition;
mod condition_json;
mod evaluate;
mod number;
mod sort_key;

#[allow(unused_imports, reason = "the calls that use them come with the next changes")]
pub(crate) use condition::{AttributePath, Binding, Comparator, Comparison, Condition, ConditionFault};
#[allow(unused_imports, reason = "the calls that use it come with the next changes")]
pub(crate) use evaluate::evaluate;
