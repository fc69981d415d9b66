//! The default store: one SQLite database in write-ahead mode.
//!
//! `open` makes or opens it and locks the data directory, `read` and `write` are the two halves of the contract,
//! `view` what a read offers to searches, `indexes` the entries of indexes, `access_log` the access log of both, `rows` what they share
//! about rows and numbers.

mod access_log;
mod indexes;
mod migration;
mod open;
mod read;
mod rows;
#[cfg(test)]
mod tests;
mod view;
mod write;

pub(crate) use open::{OpenedStore, open};
