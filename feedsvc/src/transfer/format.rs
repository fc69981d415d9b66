//! The formats of files.

use std::path::Path;

use clap::ValueEnum;

/// How records stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values (RFC 4180) with a header row, in UTF-8.
    Csv,
    /// One JSON object on each line, in UTF-8.
    Jsonl,
}

impl Format {
    /// Tells the format from a file's name.
    pub(super) fn of_file(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Some(Format::Csv),
            "jsonl" | "ndjson" => Some(Format::Jsonl),
            _ => None,
        }
    }
}
