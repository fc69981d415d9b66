//! What keeps the store in shape, beside the commits.
//!
//! `retention` drops what has outlived its time, `whole_read` runs what reads all of a running store (backup, check), `probe`
//! finds out when a store that could not be written can be written again.

pub(crate) mod probe;
pub(crate) mod retention;
#[cfg(test)]
mod tests;
pub(crate) mod whole_read;
