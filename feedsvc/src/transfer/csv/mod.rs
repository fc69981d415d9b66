//! CSV by RFC 4180, in both directions.
//!
//! `reader` finds rows and cells, strictly, and tells quoted cells from others, which no library does; `columns` is what a header
//! means; `cell` turns a cell into a value of its attribute's type and back; `shape` turns a row of cells into a record and
//! back; `rows` reads a file for an import, `writer` writes one.

mod cell;
mod columns;
mod reader;
mod rows;
mod shape;
#[cfg(test)]
mod tests;
mod writer;

pub(super) use columns::Columns;
pub(super) use rows::CsvRows;
pub(super) use shape::no_utf8;
pub(super) use writer::CsvWriter;
