//! Import and export: tables to and from files, as a client of the feed service.
//!
//! **Import**: `source` (bytes with their place in the file) → `csv` or `jsonl` (rows with their line) → `row` (a record that fits
//! the table, or a fault with its place) → `batch` → `import` (commits, one after the other). Reading has a thread of its
//! own, at most two batches ahead of the commits, so that memory is bounded whatever the file.
//!
//! **Export**: `export` (pages by search) → a thread that writes `csv` or `jsonl` → `target` (a file that appears when it is
//! complete, or the standard output).
//!
//! Around both: `arguments`, `format`, `table` (which table is meant), `connection` (to a service, or on a directory that no
//! service has; tries again while the service is away), `interrupt`, `progress`, `outcome`.
//!
//! A record survives an export and an import byte for byte: `csv::shape` says how a row of cells does that.

mod arguments;
mod batch;
mod connection;
mod csv;
mod export;
mod format;
mod import;
mod interrupt;
mod jsonl;
mod outcome;
mod progress;
mod row;
mod source;
mod table;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use arguments::{ExportArguments, ImportArguments};
pub(crate) use export::export;
pub(crate) use import::import;
