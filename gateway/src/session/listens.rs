//! The listens of this instance, by who sent them and under which id.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::SessionId;
use super::form::{Form, ListenForm};
use super::stream::Stream;
use crate::protocol::message::RequestId;

/// The open listens. A client may use one id for several, and so may two clients of one principal.
#[derive(Default)]
pub(super) struct Listens {
    open: Mutex<HashMap<Key, Vec<Arc<Stream>>>>,
    next: AtomicU64,
}

type Key = (Box<str>, RequestId);

impl Listens {
    /// Makes a name that no other stream of this process has: session ids are hexadecimal digits alone.
    pub(super) fn name(&self) -> SessionId {
        format!("listen-{}", self.next.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// Takes a listen in.
    pub(super) fn insert(&self, stream: &Arc<Stream>) {
        if let Some(key) = key(stream) {
            self.lock().entry(key).or_default().push(Arc::clone(stream));
        }
    }

    /// Lets a listen go; any other stream is no error.
    pub(super) fn remove(&self, stream: &Arc<Stream>) {
        let Some(key) = key(stream) else { return };
        let mut open = self.lock();
        if let Some(streams) = open.get_mut(&key) {
            streams.retain(|other| !Arc::ptr_eq(other, stream));
            if streams.is_empty() {
                open.remove(&key);
            }
        }
    }

    /// Finds the listen of this principal and id, if it has exactly one: which of several is meant nobody knows.
    pub(super) fn find_single(&self, principal: &str, request: &RequestId) -> Option<Arc<Stream>> {
        match self.lock().get(&(principal.into(), request.clone()))?.as_slice() {
            [stream] => Some(Arc::clone(stream)),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Arc<Stream>>>> {
        // Every section leaves the map whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(stream: &Stream) -> Option<Key> {
    match &stream.form {
        Form::Session => None,
        Form::Listen(listen) => {
            let ListenForm { request, .. } = &**listen;
            Some((stream.principal.clone(), request.clone()))
        }
    }
}
