//! Tests of rights over real connections: `calls` (which call a role may make, and roles that change meanwhile), `row_filter`
//! (which records there are for a role), `attributes` (which of their attributes it sees and writes), `hidden` (what it learns of the others: nothing). `stage` is what they share.

mod attributes;
mod calls;
mod hidden;
mod row_filter;
mod stage;
