//! What a principal sees of a change: the change that it is in the table of those records that are there for it.

use bytes::Bytes;
use proto::feed::v1::{Change, Operation};

use super::view::TableView;

/// Whether a change keeps the records before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownValues {
    Kept,
    LeftOut,
}

/// Returns a change as it is seen, or nothing if the record was not there before and is not after.
///
/// The change must have its values. A record that leaves the row filter is seen as deleted, one that comes into it as inserted: no word of
/// what it is outside.
pub(crate) fn show_change(view: &TableView, change: Change, values: ShownValues) -> Option<Change> {
    let show = |value: &Bytes| if value.is_empty() { None } else { view.show(value) };
    let (before, after) = (show(&change.before), show(&change.after));
    let operation = match (&before, &after) {
        (None, None) => return None,
        (None, Some(_)) => Operation::Insert,
        (Some(_), Some(_)) => Operation::Update,
        (Some(_), None) => Operation::Delete,
    };
    let (before, after) = match values {
        ShownValues::Kept => (before.unwrap_or_default(), after.unwrap_or_default()),
        ShownValues::LeftOut => (Bytes::new(), Bytes::new()),
    };
    Some(Change {
        operation: operation.into(),
        before,
        after,
        ..change
    })
}
