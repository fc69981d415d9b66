//! The index from what changes to the streams that want to hear of it.
//!
//! Streams of one form that subscribed to the same URI in the same spelling are a *group*: they share the encoded frame. A change
//! costs one look-up for its table and one for its record, however many streams there are.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

use super::form::FormKind;
use super::stream::Stream;
use crate::protocol::frame::EncodedUri;
use crate::protocol::resource_uri::RowUri;

/// The streams that share one frame of every change of one table or record.
pub(super) struct Group {
    /// How their notices name the URI.
    pub(super) spelling: Arc<EncodedUri>,
    /// How their frames are written.
    pub(super) form: FormKind,
    /// In no order, each once.
    pub(super) streams: Vec<Arc<Stream>>,
    /// Positions of frames of the present pass that the streams were not handed yet.
    pub(super) batch: Vec<u64>,
}

impl Group {
    /// Says whether a stream that names the URI so belongs to the group.
    fn is_for(&self, spelling: &Arc<EncodedUri>, stream: &Stream) -> bool {
        self.form == stream.form.kind() && self.spelling == *spelling
    }
}

/// Which group; valid while the group has a stream.
pub(super) type GroupId = usize;

/// The index.
#[derive(Default)]
pub(super) struct Interest {
    groups: Slab<Group>,
    tables: HashMap<Box<str>, TableInterest>,
}

/// Invariant: no list and no map entry is left when its last group is gone.
#[derive(Default)]
struct TableInterest {
    whole: Vec<GroupId>,
    records: HashMap<Box<str>, Vec<GroupId>>,
}

impl Interest {
    /// Returns the groups that watch the whole table under `path`, and those that watch its record `key`.
    pub(super) fn find(&self, path: &str, key: &str) -> (&[GroupId], &[GroupId]) {
        let Some(table) = self.tables.get(path) else {
            return (&[], &[]);
        };
        let record = table.records.get(key).map_or(&[][..], Vec::as_slice);
        (&table.whole, record)
    }

    /// Returns a group; `None` if it is gone.
    pub(super) fn group_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id)
    }

    /// Adds a stream to those that watch `row`, and returns the spelling that it shares with its group.
    pub(super) fn add(
        &mut self,
        row: &RowUri,
        spelling: &Arc<EncodedUri>,
        stream: &Arc<Stream>,
    ) -> Arc<EncodedUri> {
        let table = match self.tables.get_mut(row.path.as_str()) {
            Some(table) => table,
            None => self.tables.entry(row.path.as_str().into()).or_default(),
        };
        let list = match &row.key {
            None => &mut table.whole,
            Some(key) => table.records.entry(key.as_str().into()).or_default(),
        };
        let groups = &mut self.groups;
        let found = list
            .iter()
            .copied()
            .find(|&id| groups.get(id).is_some_and(|group| group.is_for(spelling, stream)));
        if let Some(group) = found.and_then(|id| groups.get_mut(id)) {
            group.streams.push(Arc::clone(stream));
            return Arc::clone(&group.spelling);
        }
        let group = Group {
            spelling: Arc::clone(spelling),
            form: stream.form.kind(),
            streams: vec![Arc::clone(stream)],
            batch: Vec::new(),
        };
        list.push(groups.insert(group));
        Arc::clone(spelling)
    }

    /// Takes a stream out of those that watch `row` in this spelling. One that is not there is no error.
    pub(super) fn remove(&mut self, row: &RowUri, spelling: &Arc<EncodedUri>, stream: &Arc<Stream>) {
        let Some(table) = self.tables.get_mut(row.path.as_str()) else {
            return;
        };
        let list = match &row.key {
            None => Some(&mut table.whole),
            Some(key) => table.records.get_mut(key.as_str()),
        };
        let Some(list) = list else { return };
        let groups = &mut self.groups;
        let place = list
            .iter()
            .position(|&id| groups.get(id).is_some_and(|group| group.is_for(spelling, stream)));
        if let Some(place) = place
            && let Some(&id) = list.get(place)
            && let Some(group) = groups.get_mut(id)
        {
            if let Some(index) = group.streams.iter().position(|own| Arc::ptr_eq(own, stream)) {
                group.streams.swap_remove(index);
            }
            if group.streams.is_empty() {
                groups.remove(id);
                list.swap_remove(place);
            }
        }
        if let Some(key) = &row.key
            && table.records.get(key.as_str()).is_some_and(Vec::is_empty)
        {
            table.records.remove(key.as_str());
        }
        if table.whole.is_empty() && table.records.is_empty() {
            self.tables.remove(row.path.as_str());
        }
    }
}
