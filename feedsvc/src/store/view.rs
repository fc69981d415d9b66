//! The records of one moment, for searches: what a read transaction of the store offers besides single reads.

use std::ops::ControlFlow;

use super::error::StoreError;
use super::values::StoredRecord;
use crate::catalog::TableId;
use crate::revision::Revision;

/// The store's number for an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IndexId(pub(crate) i64);

/// An index of an attribute: an entry for every record of its table, with the sort key of the attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttributeIndex {
    pub(crate) id: IndexId,
    pub(crate) attribute: String,
    pub(crate) state: IndexState,
}

/// Whether an index has every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexState {
    Building,
    Ready,
}

/// Whether there is work left on indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexWork {
    Left,
    Done,
}

/// A range of keys, or of the sort keys of an index, in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// Inclusive.
    pub(crate) lower: Vec<u8>,
    /// Exclusive; `None`: no bound.
    pub(crate) upper: Option<Vec<u8>>,
}

/// The order of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Rising,
    Falling,
}

/// A walk through an index: by sort key in the direction, and by rising key within a sort key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexWalk<'a> {
    pub(crate) index: IndexId,
    pub(crate) table: TableId,
    pub(crate) range: &'a ByteRange,
    /// Where it begins within the first sort key: keys below this one are left out, if the first sort key is this one.
    pub(crate) first: Option<(&'a [u8], &'a [u8])>,
    pub(crate) direction: Direction,
}

/// A record on a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRow<'a> {
    /// Of the index; empty on a walk by key.
    pub(crate) sort_key: &'a [u8],
    pub(crate) key: &'a str,
    pub(crate) revision: Revision,
    pub(crate) value: &'a [u8],
}

/// What is called for each record of a walk, until it breaks.
pub(crate) type VisitRecord<'a> = dyn FnMut(&RecordRow<'_>) -> Result<ControlFlow<()>, StoreError> + 'a;

/// The records as they were at one moment.
pub(crate) trait RecordView {
    /// Returns the revision whose state this is.
    fn head(&self) -> Revision;

    /// Returns how many records a table has.
    fn count_records(&self, table: TableId) -> Result<u64, StoreError>;

    /// Finds a record.
    fn find_record(&self, table: TableId, key: &str) -> Result<Option<StoredRecord>, StoreError>;

    /// Returns a table's indexes, ready or being built.
    fn read_indexes(&self, table: TableId) -> Result<Vec<AttributeIndex>, StoreError>;

    /// Counts the records with keys in a range, and stops at a limit.
    fn count_in_keys(&self, table: TableId, range: &ByteRange, limit: u64) -> Result<u64, StoreError>;

    /// Counts the entries of an index with sort keys in a range, and stops at a limit.
    fn count_in_index(&self, index: IndexId, range: &ByteRange, limit: u64) -> Result<u64, StoreError>;

    /// Visits the records with keys in a range, by key; returns whether the visitor broke it off.
    fn walk_records(
        &self,
        table: TableId,
        range: &ByteRange,
        direction: Direction,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError>;

    /// Visits the records of an index; returns whether the visitor broke it off.
    fn walk_index(
        &self,
        walk: &IndexWalk<'_>,
        visit: &mut VisitRecord<'_>,
    ) -> Result<ControlFlow<()>, StoreError>;
}
