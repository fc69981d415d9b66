//! The sessions that this instance has met: a cache of the feed service's records, and what is under way here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::SessionId;
use super::takeovers::Takeovers;
use crate::protocol::era::Version;
use crate::protocol::message::RequestId;

/// A session as this instance knows it; nothing in it changes while the session lives.
pub(crate) struct Session {
    /// Its id.
    pub(crate) id: SessionId,
    /// The name of the principal that it belongs to; empty: anonymous.
    pub(crate) principal: Box<str>,
    /// The protocol version that was negotiated.
    pub(crate) version: Version,
    /// When the record was read last.
    read_at: Mutex<Instant>,
    pub(super) takeovers: Arc<Takeovers>,
    /// A stream of it was opened on this instance.
    opened: AtomicBool,
    in_flight: Mutex<HashMap<RequestId, CancellationToken>>,
}

/// A request that is being answered; its id is taken in its session as long as this lives.
pub(crate) struct InFlight {
    session: Arc<Session>,
    id: RequestId,
    cancelled: CancellationToken,
}

/// The cache.
pub(super) struct Registry {
    inner: Mutex<Inner>,
    limit: usize,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Arc<Session>>,
    touched: HashSet<SessionId>,
}

impl Session {
    pub(super) fn new(id: SessionId, principal: &str, version: Version) -> Session {
        Session {
            id,
            principal: principal.into(),
            version,
            read_at: Mutex::new(Instant::now()),
            takeovers: Arc::default(),
            opened: AtomicBool::new(false),
            in_flight: Mutex::new(HashMap::new()),
        }
    }

    /// Returns how long ago the record was read.
    pub(super) fn age(&self) -> Duration {
        self.read_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed()
    }

    /// Notes that a stream of it is opened on this instance; returns whether one was before.
    pub(super) fn note_opened(&self) -> bool {
        self.opened.swap(true, Ordering::Relaxed)
    }

    /// Takes a request id for as long as the answer takes; `None` if another request has it.
    pub(crate) fn begin(self: &Arc<Session>, id: &RequestId) -> Option<InFlight> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if in_flight.contains_key(id) {
            return None;
        }
        let cancelled = CancellationToken::new();
        in_flight.insert(id.clone(), cancelled.clone());
        Some(InFlight {
            session: Arc::clone(self),
            id: id.clone(),
            cancelled,
        })
    }

    /// Cancels a request that is being answered here; returns whether there was one.
    pub(crate) fn cancel(&self, id: &RequestId) -> bool {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let cancelled = in_flight.get(id);
        cancelled.inspect(|cancelled| cancelled.cancel()).is_some()
    }
}

impl InFlight {
    /// Waits until the client cancels the request.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut in_flight = self
            .session
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        in_flight.remove(&self.id);
        if in_flight.is_empty() {
            in_flight.shrink_to_fit();
        }
    }
}

impl Registry {
    /// Makes a cache of at most `limit` sessions.
    pub(super) fn new(limit: usize) -> Registry {
        Registry {
            inner: Mutex::new(Inner::default()),
            limit,
        }
    }

    /// Finds a session that was met here.
    pub(super) fn find(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().sessions.get(id).cloned()
    }

    /// Takes a session in that was just read, and returns it; one that is known stays, as read now.
    pub(super) fn insert(&self, session: Session) -> Arc<Session> {
        let mut inner = self.lock();
        if let Some(known) = inner.sessions.get(&session.id) {
            *known.read_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            return Arc::clone(known);
        }
        if inner.sessions.len() >= self.limit {
            // Any of them can be read again; which one goes matters little.
            if let Some(victim) = inner.sessions.keys().next().cloned() {
                inner.sessions.remove(&victim);
            }
        }
        let session = Arc::new(session);
        inner
            .sessions
            .insert(Arc::clone(&session.id), Arc::clone(&session));
        session
    }

    /// Returns how many sessions are known.
    pub(super) fn len(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Forgets a session.
    pub(super) fn remove(&self, id: &str) {
        let mut inner = self.lock();
        inner.sessions.remove(id);
        inner.touched.remove(id);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.lock() = Inner::default();
    }

    /// Notes that a session was active.
    pub(super) fn touch(&self, id: &SessionId) {
        let mut inner = self.lock();
        if inner.touched.len() < self.limit && !inner.touched.contains(id) {
            inner.touched.insert(Arc::clone(id));
        }
    }

    /// Takes the ids of the sessions that were active since the last call.
    pub(super) fn take_touched(&self) -> HashSet<SessionId> {
        std::mem::take(&mut self.lock().touched)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
