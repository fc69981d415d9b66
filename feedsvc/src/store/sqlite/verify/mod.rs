//! Checks a store against its contract.
//!
//! A running store is checked page by page, each page in a read transaction of its own: a transaction over everything would keep the
//! write-ahead log from beginning again, so that it grew with every commit. What is compared with each other is always read
//! in the same transaction, so commits meanwhile make no finding; what changes behind the check's back was written after it began.
//!
//! One function per subject, called one after the other in `run`: `log` the audit log and its chain, `blocks` the copies of its entries, `tables` the
//! records against the log, `indexes` the indexes of attributes against the records, `access` the access log.
//! `report` collects, `database` is the check of the database's own structure, for a store that is not running.

mod access;
mod blocks;
mod database;
mod indexes;
mod log;
mod report;
mod run;
mod tables;
#[cfg(test)]
mod tests;

pub(super) use run::verify;
pub(crate) use run::{verify_directory, verify_file};
