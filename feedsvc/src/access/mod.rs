//! Who may do what: one function, [`decide`], that every call of the service asks.
//!
//! Pure values: roles and users are parsed once per change into [`Rights`] (`rights`, `role`, `role_json`), which the commit path
//! keeps current; a call takes the snapshot that stands at its arrival. `view` is what a principal sees of a table's records, `writing`
//! what it may make of them, `row_filter` the condition that decides which records there are for it, `visible_change` what it sees of a
//! change.

mod principal;
mod rights;
mod role;
mod role_json;
mod row_filter;
#[cfg(test)]
mod tests;
mod view;
mod visible_change;
mod writing;

pub(crate) use principal::Principal;
pub use rights::AccessMode;
pub(crate) use rights::{Action, Denied, Object, Operation, Rights, RightsChange, decide};
pub(crate) use role::Role;
pub(crate) use view::TableView;
pub(crate) use visible_change::{ShownValues, show_change};
pub(crate) use writing::{Intent, TableWriter};
