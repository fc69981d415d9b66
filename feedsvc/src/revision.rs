//! Positions in the feed.

use std::fmt;

/// A position in the feed: from 1, without holes, in commit order; 0 stands before the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Revision(pub(crate) u64);

impl Revision {
    /// The position before the first entry.
    pub(crate) const ZERO: Revision = Revision(0);

    /// Returns the position right after this one.
    pub(crate) fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
