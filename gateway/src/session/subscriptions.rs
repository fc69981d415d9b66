//! The subscriptions of one session or listen, by what they watch.

use std::collections::HashMap;
use std::sync::Arc;

use super::form::Form;
use super::stream::Block;
use crate::feed::StoredSubscription;
use crate::protocol::event_id::{EventId, Slot};
use crate::protocol::frame::EncodedUri;
use crate::protocol::resource_uri::{self, ResourceUri, RowUri};

/// One subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    /// What it watches.
    pub(super) row: RowUri,
    /// How its notices name the URI.
    pub(super) spelling: Arc<EncodedUri>,
    /// Changes with a higher revision notify.
    pub(super) revision: u64,
}

/// The subscriptions of one stream, by path and key.
///
/// Invariant: no path is left when its last subscription is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    /// How the stream's frames are written.
    form: Form,
    by_path: HashMap<Box<str>, OfPath>,
}

#[derive(Clone, Debug, Default)]
struct OfPath {
    whole: Option<Subscription>,
    records: HashMap<Box<str>, Subscription>,
}

impl Subscriptions {
    /// Reads the subscriptions of a record. `is_served` says under which paths tables are served; the canonical URIs of
    /// subscriptions that name nothing that is are returned beside.
    pub(super) fn read(
        stored: &[StoredSubscription],
        is_served: impl Fn(&str) -> bool,
    ) -> (Subscriptions, Vec<String>) {
        let mut subscriptions = Subscriptions::default();
        let mut unserved = Vec::new();
        for one in stored {
            if read_row(&one.uri).is_some_and(|row| is_served(&row.path)) {
                subscriptions.add(&one.uri, &one.spelling, one.revision);
            } else {
                unserved.push(one.uri.clone());
            }
        }
        (subscriptions, unserved)
    }

    /// Makes those of a listen; changes above `revision` notify.
    pub(super) fn of_listen(
        form: Form,
        rows: &[RowUri],
        spellings: &[String],
        revision: u64,
    ) -> Subscriptions {
        let mut subscriptions = Subscriptions {
            form,
            ..Subscriptions::default()
        };
        for (row, spelling) in rows.iter().zip(spellings) {
            subscriptions.add(&row.canonical(), spelling, revision);
        }
        subscriptions
    }

    /// Returns how the stream's frames are written.
    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// Makes the notice of a change for this stream alone; without an id it is that of a gap.
    pub(super) fn notice(&self, id: Option<EventId>, subscription: &Subscription) -> Block {
        Block {
            id,
            spelling: Some(Arc::clone(&subscription.spelling)),
            bytes: self.form.updated(id, &subscription.spelling),
        }
    }

    /// Adds a subscription that became effective at `revision`; one that is there already stays as it is.
    ///
    /// `uri` is the canonical URI. Returns the subscription if it is new.
    pub(super) fn add(&mut self, uri: &str, spelling: &str, revision: u64) -> Option<&mut Subscription> {
        let row = read_row(uri)?;
        let of_path = self.by_path.entry(row.path.as_str().into()).or_default();
        let subscription = |row| Subscription {
            row,
            spelling: Arc::new(EncodedUri::new(spelling)),
            revision,
        };
        match &row.key {
            None if of_path.whole.is_none() => Some(of_path.whole.insert(subscription(row))),
            Some(key) if !of_path.records.contains_key(key.as_str()) => Some(
                of_path
                    .records
                    .entry(key.as_str().into())
                    .or_insert(subscription(row)),
            ),
            None | Some(_) => None,
        }
    }

    /// Removes a subscription by its canonical URI and returns it.
    pub(super) fn remove(&mut self, uri: &str) -> Option<Subscription> {
        let row = read_row(uri)?;
        let of_path = self.by_path.get_mut(row.path.as_str())?;
        let removed = match &row.key {
            None => of_path.whole.take(),
            Some(key) => of_path.records.remove(key.as_str()),
        };
        if of_path.whole.is_none() && of_path.records.is_empty() {
            self.by_path.remove(row.path.as_str());
        }
        removed
    }

    /// Returns those that became effective at `revision` or before.
    pub(super) fn as_of(&self, revision: u64) -> Subscriptions {
        let mut subscriptions = self.clone();
        for of_path in subscriptions.by_path.values_mut() {
            of_path
                .whole
                .take_if(|subscription| subscription.revision > revision);
            of_path
                .records
                .retain(|_, subscription| subscription.revision <= revision);
        }
        subscriptions
            .by_path
            .retain(|_, of_path| of_path.whole.is_some() || !of_path.records.is_empty());
        subscriptions
    }

    /// Returns every subscription, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.by_path
            .values()
            .flat_map(|of_path| of_path.whole.iter().chain(of_path.records.values()))
    }

    /// Returns every subscription, in no order, to be changed in what they share with others.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.by_path
            .values_mut()
            .flat_map(|of_path| of_path.whole.iter_mut().chain(of_path.records.values_mut()))
    }

    /// Returns the frames that a change causes: the id and subscription of each, in rising order.
    pub(super) fn matching(
        &self,
        revision: u64,
        path: &str,
        key: &str,
    ) -> impl Iterator<Item = (EventId, &Subscription)> {
        let of_path = self.by_path.get(path);
        let table = of_path.and_then(|of_path| of_path.whole.as_ref());
        let record = of_path.and_then(|of_path| of_path.records.get(key));
        [(table, Slot::Table), (record, Slot::Record)]
            .into_iter()
            .filter_map(move |(subscription, slot)| {
                let subscription = subscription.filter(|subscription| subscription.revision < revision)?;
                Some((EventId::new(revision, slot), subscription))
            })
    }
}

fn read_row(uri: &str) -> Option<RowUri> {
    match resource_uri::parse(uri) {
        Ok(ResourceUri::Row(row)) => Some(row),
        _ => None,
    }
}
