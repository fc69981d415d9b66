//! The refusal of a search that would look at too many records.

use std::fmt;

use crate::catalog::TableName;

/// A search would look at more records than it may; its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanLimit {
    pub(crate) table: TableName,
    /// How many records it may look at.
    pub(crate) limit: u64,
    /// What to index.
    pub(crate) missing: Vec<String>,
    /// What is indexed, but not yet to the end.
    pub(crate) building: Vec<String>,
}

impl fmt::Display for ScanLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "it would look at more than {} records of table {}; ",
            self.limit, self.table
        )?;
        match (self.building.as_slice(), self.missing.as_slice()) {
            ([], []) => {
                formatter.write_str("narrow the condition by an indexed attribute or by the primary key")
            }
            ([], missing) => {
                write!(
                    formatter,
                    "declare `{}` @indexed, or narrow the condition",
                    missing.join("` or `")
                )
            }
            (building, _) => write!(
                formatter,
                "the index on `{}` is still being built: search again later, or narrow the condition",
                building.join("`, `")
            ),
        }
    }
}
