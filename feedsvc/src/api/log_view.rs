//! What a caller sees of the log: everything, or the changes of tables that it may read.

use std::collections::HashMap;
use std::sync::Arc;

use proto::feed::v1::Entry;
use proto::feed::v1::entry::Body;

use super::request::Caller;
use crate::access::{Action, Object, Operation, ShownValues, TableView, show_change};
use crate::catalog::TableName;
use crate::entry::decode_with_values;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::store::{LogQuery, Reader, Snapshot, StoreError, Target};

/// How many changes that are outside of a row filter one call looks at, on its way to one that is not.
const HIDDEN_MAX: usize = 10_000;

/// A caller's eyes on the log.
#[derive(Clone, Debug)]
pub(super) enum LogView {
    /// Every entry, as it is.
    Whole,
    /// Changes of these tables; no session command.
    Tables(HashMap<TableName, Arc<TableView>>),
}

impl LogView {
    /// Makes the view for a call that names tables, or everything by naming none.
    ///
    /// Who has the operation sees everything as it is. Everybody else has to name tables, each of which it may read.
    ///
    /// # Errors
    /// Denied: the operation, if no table is named, or session commands are; else the first table that may not be read.
    pub(super) fn new<'a>(
        caller: &Caller,
        operation: Operation,
        tables: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<LogView, Refusal> {
        let Err(denied) = caller.check(Action::Call, Object::Operation(operation)) else {
            return Ok(LogView::Whole);
        };
        let mut views = HashMap::new();
        for (database, table) in tables {
            let name = TableName::new(database, table);
            if database.is_empty() && table.is_empty() {
                return Err(denied.into());
            }
            caller.check(Action::Read, Object::Table(&name))?;
            let view = caller.view(&name);
            views.insert(name, Arc::new(view));
        }
        if views.is_empty() {
            return Err(denied.into());
        }
        Ok(LogView::Tables(views))
    }

    /// Whether entries have to be read with their values to be shown.
    pub(super) fn needs_values(&self) -> bool {
        match self {
            LogView::Whole => false,
            LogView::Tables(views) => views.values().any(|view| !view.is_whole()),
        }
    }

    /// Returns the view of each table; `None`: every change is seen as it is.
    pub(super) fn of_each<'a>(
        &self,
        tables: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Vec<Option<Arc<TableView>>> {
        let view = |(database, table)| match self {
            LogView::Whole => None,
            LogView::Tables(views) => views
                .get(&TableName::new(database, table))
                .filter(|view| !view.is_whole())
                .cloned(),
        };
        tables.map(view).collect()
    }

    /// Returns an entry as the caller sees it; it must have its values if the view needs them.
    pub(super) fn show(&self, entry: Entry, include_values: bool) -> Option<Entry> {
        let LogView::Tables(views) = self else {
            return Some(entry);
        };
        let Some(Body::Change(change)) = entry.body else {
            return None;
        };
        let view = views.get(&TableName::new(change.database.as_str(), change.table.as_str()))?;
        let values = if include_values {
            ShownValues::Kept
        } else {
            ShownValues::LeftOut
        };
        let change = if view.is_whole() {
            change
        } else {
            show_change(view, change, values)?
        };
        Some(Entry {
            body: Some(Body::Change(change)),
            ..entry
        })
    }
}

/// As [`Reader::find_latest`], but of the changes that are seen by the view of each target.
///
/// The inner result is refused when too many changes on the way are not.
pub(super) fn find_latest_visible(
    reader: &dyn Reader,
    targets: &[Option<Target>],
    views: &[Option<Arc<TableView>>],
    after: Revision,
    until: Option<Revision>,
) -> Result<Result<Snapshot<Vec<Revision>>, Refusal>, StoreError> {
    let mut latest = reader.find_latest(targets, after, until)?;
    let mut hidden = 0;
    for ((target, view), found) in targets.iter().zip(views).zip(&mut latest.value) {
        let (Some(target), Some(view)) = (target, view) else {
            continue;
        };
        while *found > Revision::ZERO && !is_visible(reader, target, view, *found)? {
            hidden += 1;
            if hidden > HIDDEN_MAX {
                return Ok(Err(Refusal::HiddenLimit { limit: HIDDEN_MAX }));
            }
            let before = Revision(found.0 - 1);
            let earlier = reader.find_latest(&[Some(target.clone())], after, Some(before))?;
            *found = earlier.value.first().copied().unwrap_or_default();
        }
    }
    Ok(Ok(latest))
}

fn is_visible(
    reader: &dyn Reader,
    target: &Target,
    view: &TableView,
    revision: Revision,
) -> Result<bool, StoreError> {
    let page = reader.read_log(&LogQuery {
        until: Some(revision),
        entry_limit: 1,
        limit_bytes: usize::MAX,
        with_values: true,
        targets: Some(vec![target.clone()]),
        ..LogQuery::after(Revision(revision.0 - 1))
    })?;
    let damaged = StoreError::Damaged {
        problem: "an entry that does not parse",
        revision,
    };
    let Some(entry) = page.entries.into_iter().next() else {
        return Err(damaged);
    };
    match decode_with_values(&entry.encoded, entry.before, entry.after) {
        Ok(Entry {
            body: Some(Body::Change(change)),
            ..
        }) => Ok(show_change(view, change, ShownValues::LeftOut).is_some()),
        Ok(_) | Err(_) => Err(damaged),
    }
}
