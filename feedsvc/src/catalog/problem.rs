//! The errors of a schema, as they are told: all at once, each with file, line and column.

use std::fmt;

/// All errors of a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use the schema: {}", Told(.problems))]
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

/// One problem on the same line, several on a line each.
struct Told<'a>(&'a [SchemaProblem]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = self.0 {
            return write!(formatter, "{problem}");
        }
        write!(
            formatter,
            "{} errors found; correct the places below",
            self.0.len()
        )?;
        for problem in self.0 {
            write!(formatter, "\n  {problem}")?;
        }
        Ok(())
    }
}
