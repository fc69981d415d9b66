//! Where a value was given, and what was given there.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the declaration has it.
    Default,
    /// A line of the configuration file.
    File {
        /// As it was named.
        path: Arc<Path>,
        /// From 1; 0 stands for the file as a whole.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// The command line; the flag as it is written, for example `--listen` or `--set listen`.
    Flag(String),
}

impl Origin {
    /// Returns the strength of the source: what is given in a stronger one counts.
    pub(crate) fn strength(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File { .. } => 1,
            Origin::Environment(_) => 2,
            Origin::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => formatter.write_str("default"),
            Origin::File { path, line: 0 } => write!(formatter, "{}", path.display()),
            Origin::File { path, line } => write!(formatter, "{}:{line}", path.display()),
            Origin::Environment(name) | Origin::Flag(name) => formatter.write_str(name),
        }
    }
}

/// A value as it was given, before anybody knows what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    /// From flags and environment, which have no types.
    Plain(String),
    /// A string of the file.
    Text(String),
    /// An integer of the file; one beyond 128 bits is the largest or smallest.
    Integer(i128),
    Boolean(bool),
    List(Vec<Raw>),
    /// What no key takes; how messages name it.
    Other(&'static str),
}

impl Raw {
    /// Returns how messages name what is here instead of what should be.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Raw::Plain(_) => "a text",
            Raw::Text(_) => "a text in quotes",
            Raw::Integer(_) => "a number",
            Raw::Boolean(_) => "a truth value",
            Raw::List(_) => "a list",
            Raw::Other(name) => name,
        }
    }
}

/// A value for a key.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Dotted.
    pub(crate) key: String,
    pub(crate) raw: Raw,
    /// As it was written.
    pub(crate) shown: String,
    pub(crate) origin: Origin,
}
