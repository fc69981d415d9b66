//! What a watch sees: kept current with the rights of its principal, and how an entry is sent accordingly.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use proto::feed::v1::entry::Body;
use proto::feed::v1::{Entry, TableFilter, WatchRequest, WatchResponse};
use proto::{entry_size, put_entry};

use super::log_view::LogView;
use super::request::Caller;
use crate::access::{Operation, Principal, Rights};
use crate::catalog::TableName;
use crate::catalog::json::{Json, JsonObject, object_to_text};
use crate::entry::decode_with_values;
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::store::{LogEntry, StoreError};

/// The eyes of one watch.
#[derive(Clone)]
pub(super) struct WatchSight {
    principal: Principal,
    tables: Vec<TableFilter>,
    include_values: bool,
    include_filter_values: bool,
    /// By which `view` was made.
    rights: Arc<Rights>,
    view: LogView,
}

impl WatchSight {
    /// Makes the sight that a request asks for.
    ///
    /// # Errors
    /// Denied: see [`LogView::new`].
    pub(super) fn new(caller: Caller, request: &WatchRequest) -> Result<WatchSight, Refusal> {
        Ok(WatchSight {
            view: view(&caller, &request.tables)?,
            principal: caller.principal,
            tables: request.tables.clone(),
            include_values: request.include_values,
            include_filter_values: request.include_filter_values,
            rights: caller.rights,
        })
    }

    /// Takes over a change of the rights; called before an answer is made, after its head is known.
    ///
    /// # Errors
    /// Denied: the principal may no longer watch what it does.
    pub(super) fn refresh(&mut self, feed: &Feed) -> Result<(), Refusal> {
        let rights = feed.rights();
        if !Arc::ptr_eq(&rights, &self.rights) {
            let caller = Caller::new(self.principal.clone(), rights);
            self.view = view(&caller, &self.tables)?;
            self.rights = caller.rights;
        }
        Ok(())
    }

    /// Whether the rights are still those of the last refresh.
    pub(super) fn is_current(&self, feed: &Feed) -> bool {
        Arc::ptr_eq(&feed.rights(), &self.rights)
    }

    /// Whether every entry has to be looked at with its values, which only the store has.
    pub(super) fn needs_values(&self) -> bool {
        self.include_values || self.view.needs_values()
    }

    /// Whether what is read from the store has to have its values.
    pub(super) fn reads_values(&self) -> bool {
        self.needs_values() || self.adds_filter_values()
    }

    fn adds_filter_values(&self) -> bool {
        self.include_filter_values && self.rights.has_filters()
    }

    /// Whether one of these entries, as an answer carries them, has to be, since a row filter looks at its table.
    pub(super) fn needs_values_of(&self, entries: &[Bytes]) -> bool {
        let is_filtered = |slice: &Bytes| match WatchResponse::decode(slice.clone()) {
            Ok(answer) => answer
                .entries
                .iter()
                .any(|entry| self.filter_attributes(entry).is_some()),
            // The store tells what is wrong with it.
            Err(_) => true,
        };
        self.adds_filter_values() && entries.iter().any(is_filtered)
    }

    /// Returns those of the entries that are sent, as an answer carries them, none if none is; they must have their values if
    /// [`WatchSight::reads_values`] says so.
    pub(super) fn encode(&self, entries: Vec<LogEntry>) -> Result<Vec<Bytes>, StoreError> {
        let shown = if self.reads_values() {
            let shown = entries
                .into_iter()
                .filter_map(|entry| self.show(entry).transpose());
            shown.collect::<Result<Vec<_>, _>>()?
        } else {
            entries.into_iter().map(|entry| entry.encoded).collect()
        };
        let size_bytes = shown.iter().map(|encoded| entry_size(encoded.len())).sum();
        let mut slice = BytesMut::with_capacity(size_bytes);
        for encoded in &shown {
            put_entry(&mut slice, encoded);
        }
        Ok(if slice.is_empty() {
            Vec::new()
        } else {
            vec![slice.freeze()]
        })
    }

    /// Returns the entry as it is sent, if it is.
    fn show(&self, entry: LogEntry) -> Result<Option<Bytes>, StoreError> {
        let revision = entry.revision;
        let mut decoded = decode_with_values(&entry.encoded, entry.before, entry.after).map_err(|_| {
            StoreError::Damaged {
                problem: "an entry that does not parse",
                revision,
            }
        })?;
        if self.adds_filter_values() {
            self.add_filter_values(&mut decoded);
        }
        if !self.include_values && matches!(self.view, LogView::Whole) {
            leave_out_values(&mut decoded);
        }
        let shown = self.view.show(decoded, self.include_values);
        Ok(shown.map(|entry| entry.encode_to_vec().into()))
    }

    /// Those who see the table through a filter of their own get no values of others' filters.
    fn add_filter_values(&self, entry: &mut Entry) {
        if !matches!(self.view, LogView::Whole) {
            return;
        }
        let Some(attributes) = self.filter_attributes(entry).cloned() else {
            return;
        };
        if let Some(Body::Change(change)) = &mut entry.body {
            change.filter_before = pick(&change.before, &attributes);
            change.filter_after = pick(&change.after, &attributes);
        }
    }

    fn filter_attributes(&self, entry: &Entry) -> Option<&BTreeSet<String>> {
        match &entry.body {
            Some(Body::Change(change)) => self
                .rights
                .filter_attributes(&TableName::new(change.database.as_str(), change.table.as_str())),
            Some(Body::Session(_)) | None => None,
        }
    }
}

fn view(caller: &Caller, tables: &[TableFilter]) -> Result<LogView, Refusal> {
    let names = tables
        .iter()
        .map(|filter| (filter.database.as_str(), filter.table.as_str()));
    LogView::new(caller, Operation::Watch, names)
}

fn leave_out_values(entry: &mut Entry) {
    if let Some(Body::Change(change)) = &mut entry.body {
        change.before = Bytes::new();
        change.after = Bytes::new();
    }
}

/// Returns those attributes of a record; nothing where there is no record.
fn pick(record: &Bytes, attributes: &BTreeSet<String>) -> Bytes {
    let Ok(Json::Object(record)) = Json::parse(record) else {
        return Bytes::new();
    };
    let picked: JsonObject = record
        .into_iter()
        .filter(|(name, _)| attributes.contains(name))
        .collect();
    object_to_text(&picked).into()
}
