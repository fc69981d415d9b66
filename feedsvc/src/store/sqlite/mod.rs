//! The default store: one SQLite database in write-ahead mode.
//!
//! `open` makes or opens it and locks the data directory, `migration` brings it to the newest version, `read` and `write` are
//! the two halves of the contract. The parts of these that are subjects of their own: `view` is what a read offers to searches,
//! `indexes` the entries of indexes, `log` reads the log, `blocks` writes and reads it as answers of watches carry it, `access_log` is the access log of both, `trim` drops what has outlived its time, `status` measures, `copy` makes
//! a copy of a running store, `restore` a store of a copy, `verify` checks everything. `rows` is what they share about rows and
//! numbers.

mod access_log;
mod blocks;
mod copy;
mod indexes;
mod log;
mod migration;
mod open;
mod read;
mod restore;
mod rows;
mod status;
#[cfg(test)]
mod tests;
mod trim;
mod verify;
mod view;
mod write;

pub(crate) use open::{OpenedStore, open};
pub(crate) use restore::{Damage, restore};
pub(crate) use verify::{verify_directory, verify_file};
