//! The errors of a schema, as they are told: all at once, each with file, line and column.

use std::fmt;

/// All errors of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the schema: {} found; correct the places below\n{}", Count(.problems.len()), Lines(.problems))]
pub struct SchemaError {
    problems: Vec<SchemaProblem>,
}

impl SchemaError {
    /// Wraps problems, at least one, in the order in which they are told.
    pub(super) fn new(problems: Vec<SchemaProblem>) -> SchemaError {
        SchemaError { problems }
    }
}

/// One error of a schema, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaProblem {
    pub(super) file: String,
    /// 1-based.
    pub(super) line: usize,
    /// 1-based, in characters.
    pub(super) column: usize,
    pub(super) message: String,
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.message
        )
    }
}

struct Count(usize);

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => formatter.write_str("1 error"),
            count => write!(formatter, "{count} errors"),
        }
    }
}

struct Lines<'a>(&'a [SchemaProblem]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "  {problem}")?;
        }
        Ok(())
    }
}
