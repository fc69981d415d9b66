//! The default store: one SQLite database in write-ahead mode.
//!
//! `open` makes or opens it and locks the data directory, `read` and `write` are the two halves of the contract,
//! `view` what a read offers to searches, `indexes` the entries of indexes, `rows` what they share about rows and numbers.

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
