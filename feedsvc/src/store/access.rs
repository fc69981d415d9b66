//! What goes into the access log of a store and what comes out of it.

use bytes::Bytes;

use crate::chain::ChainHash;

/// The ends of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessBounds {
    /// 0: there never was an entry.
    pub(crate) newest: u64,
    pub(crate) newest_hash: ChainHash,
    /// The oldest number that is kept; newest + 1 when there is none. At least 1.
    pub(crate) oldest: u64,
    /// The hash right before the oldest.
    pub(crate) base_hash: ChainHash,
}

/// An entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAccess<'a> {
    pub(crate) number: u64,
    /// By the recorder's clock.
    pub(crate) time_ms: i64,
    /// By the store's clock; never falls.
    pub(crate) recorded_ms: i64,
    pub(crate) principal: &'a str,
    pub(crate) method: &'a str,
    pub(crate) encoded: &'a [u8],
    pub(crate) hash: ChainHash,
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredAccess {
    pub(crate) number: u64,
    pub(crate) encoded: Bytes,
    pub(crate) hash: ChainHash,
}

/// Which entries a read is to bring.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessQuery {
    /// Exclusive.
    pub(crate) after: u64,
    pub(crate) entry_limit: usize,
    /// A page ends before the entry with which it would grow beyond this, but has at least one.
    pub(crate) limit_bytes: usize,
    /// How many entries are looked at.
    pub(crate) scan_limit: usize,
    /// `None`: of everyone.
    pub(crate) principal: Option<String>,
    /// `None`: of every one.
    pub(crate) method: Option<String>,
    /// Inclusive, by the recorder's clock.
    pub(crate) from_ms: Option<i64>,
    /// Exclusive.
    pub(crate) until_ms: Option<i64>,
}

/// A page of the access log.
#[derive(Clone, Debug)]
pub(crate) struct AccessPage {
    /// Rising numbers.
    pub(crate) entries: Vec<StoredAccess>,
    /// Every entry that was asked for up to here is in this page or an earlier one.
    pub(crate) progress: u64,
    pub(crate) bounds: AccessBounds,
}

/// Which entries the access log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessRetention {
    /// Entries that were recorded before this go.
    pub(crate) recorded_from_ms: i64,
    /// The oldest go until the rest takes no more than this.
    pub(crate) kept_bytes_max: u64,
    /// How many go at most in one step.
    pub(crate) step: usize,
}
