//! The one watch: follows the feed from entry to entry and appends what it brings to the ring.
//!
//! A gateway watches everything, always. When the connection breaks, it goes on after the last revision that it has. When
//! the feed service turns out to have another history (restored, replaced, trimmed beyond the cursor), the ring begins
//! anew at the service's head (see [`Ring::beginning`]): whoever relied on the old history has to begin anew too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use proto::feed::v1::WatchResponse;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::catalog::Catalog;
use super::client::FeedClient;
use super::entry::Entry;
use super::error::FeedError;
use super::ring::Ring;
use crate::protocol::cursor::FeedIdentity;
use crate::sabotage::{self, Sabotage};

/// The first pause before the watch connects again, and the longest. The first is short, since a restart takes a second;
/// the longest keeps a gateway from waiting much longer than the service needs.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What the gateway knows of the feed service.
#[derive(Clone, Debug)]
pub(crate) struct WatchStatus {
    /// The watch is open and has its first answer.
    pub(crate) live: bool,
    /// Since when `live` is what it is.
    pub(crate) since: Instant,
    /// Why it is not live; empty while it is.
    pub(crate) reason: String,
    /// Why the feed service cannot commit although the watch is live; empty: it can.
    pub(crate) problem: String,
}

/// The watch with what it fills: the ring and the catalogue.
pub(crate) struct Watch {
    client: FeedClient,
    ring: Arc<Ring>,
    catalog: RwLock<Arc<Catalog>>,
    status: watch::Sender<WatchStatus>,
    /// The oldest revision that the log still has, as of the newest answer; 0 before the first.
    oldest: AtomicU64,
    /// The cursor of the hub, which the ring waits for.
    hub_position: watch::Receiver<u64>,
}

/// Where the watch stands in which history.
struct Cursor {
    store_id: String,
    revision: u64,
    hash: Bytes,
}

impl Watch {
    /// Makes a watch that is not connected yet. `hub_position` is the cursor below which entries may leave the ring.
    pub(crate) fn new(client: FeedClient, ring: Arc<Ring>, hub_position: watch::Receiver<u64>) -> Watch {
        let status = WatchStatus {
            live: false,
            since: Instant::now(),
            reason: "the feed service was not reached yet".into(),
            problem: String::new(),
        };
        let catalog = RwLock::new(Arc::new(Catalog::default()));
        Watch {
            client,
            ring,
            catalog,
            status: watch::Sender::new(status),
            oldest: AtomicU64::new(0),
            hub_position,
        }
    }

    /// Returns the exported tables as of the newest entry in the ring, or later.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the oldest revision that the feed's log still has, as far as it was told.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Returns which feed is followed, none before the first answer, and up to which revision.
    pub(crate) fn place(&self) -> (FeedIdentity, u64) {
        self.ring.place()
    }

    /// Returns the present status.
    pub(crate) fn status(&self) -> WatchStatus {
        self.status.borrow().clone()
    }

    /// Says whether the watch is open and has its first answer.
    pub(crate) fn is_live(&self) -> bool {
        self.status.borrow().live
    }

    /// Returns a receiver of the status.
    pub(crate) fn subscribe(&self) -> watch::Receiver<WatchStatus> {
        self.status.subscribe()
    }

    /// Follows the feed until `shutdown`.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        let mut cursor = None;
        let mut delay = RETRY_DELAY.0;
        loop {
            let failure = tokio::select! {
                () = shutdown.cancelled() => return,
                failure = self.follow(&mut cursor) => failure,
            };
            if self.status.borrow().live {
                delay = RETRY_DELAY.0;
            }
            self.note_failure(&failure);
            if matches!(failure, FeedError::LostHistory | FeedError::Compacted) {
                cursor = None;
                continue;
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = sleep(jittered(delay)) => {}
            }
            delay = RETRY_DELAY.1.min(delay * 2);
        }
    }

    /// Opens the watch after `cursor` and follows it until it fails; the cursor stands at what is in the ring.
    async fn follow(&self, cursor: &mut Option<Cursor>) -> FeedError {
        match self.try_follow(cursor).await {
            Ok(()) => FeedError::Unavailable,
            Err(error) => error,
        }
    }

    async fn try_follow(&self, cursor: &mut Option<Cursor>) -> Result<(), FeedError> {
        let after = cursor
            .as_ref()
            .map(|cursor| match sabotage::is(Sabotage::WatchLate) {
                true => (cursor.revision + 1, Bytes::new()),
                false => (cursor.revision, cursor.hash.clone()),
            });
        let mut answers = self.client.watch(after).await?;
        let first = answers.message().await?.ok_or(FeedError::Unavailable)?;
        // The tables first: entries are read with them.
        self.refresh_catalog().await?;
        match cursor {
            Some(cursor) if cursor.store_id == first.store_id => {}
            Some(_) => return Err(FeedError::LostHistory),
            None => self
                .ring
                .reset(first.progress, FeedIdentity::of_store(&first.store_id)),
        }
        let position = cursor.insert(Cursor {
            store_id: first.store_id.clone(),
            revision: self.ring.head(),
            hash: Bytes::new(),
        });
        self.append(position, first).await?;
        self.note_live(position.revision);
        while let Some(answer) = answers.message().await? {
            self.append(position, answer).await?;
        }
        Ok(())
    }

    async fn append(&self, cursor: &mut Cursor, answer: WatchResponse) -> Result<(), FeedError> {
        self.note_problem(&answer.problem);
        if answer.entries.iter().any(Catalog::is_changed_by) {
            self.refresh_catalog().await?;
        }
        self.oldest.store(answer.oldest, Ordering::Relaxed);
        let catalog = self.catalog();
        let entries = answer
            .entries
            .into_iter()
            .map(|entry| Entry::read(entry, &catalog));
        let hub_position = *self.hub_position.borrow();
        self.ring.append(entries, answer.progress, hub_position);
        cursor.revision = answer.progress;
        cursor.hash = answer.progress_hash;
        self.wait_for_room().await;
        Ok(())
    }

    /// Waits until the hub has read on, if the ring is full of what it has not: HTTP/2 holds the rest back meanwhile.
    async fn wait_for_room(&self) {
        let mut position = self.hub_position.clone();
        while self.ring.is_full() {
            if position.changed().await.is_err() {
                return;
            }
            let seen = *position.borrow_and_update();
            self.ring.append([], 0, seen);
        }
    }

    async fn refresh_catalog(&self) -> Result<(), FeedError> {
        let catalog = Arc::new(self.client.read_catalog().await?);
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        Ok(())
    }

    fn note_live(&self, revision: u64) {
        info!(revision, "the watch is live");
        self.status.send_modify(|status| {
            status.live = true;
            status.since = Instant::now();
            status.reason.clear();
        });
    }

    fn note_problem(&self, problem: &str) {
        let has_changed = self.status.send_if_modified(|status| {
            let has_changed = status.problem != problem;
            if has_changed {
                status.problem = problem.to_owned();
            }
            has_changed
        });
        match (has_changed, problem) {
            (false, _) => {}
            (true, "") => info!("the feed service can commit again"),
            (true, problem) => warn!(problem, "the feed service cannot commit"),
        }
    }

    fn note_failure(&self, failure: &FeedError) {
        let before = self.status();
        if before.live {
            warn!(%failure, "the watch broke, connecting again");
        } else if before.reason != failure.to_string() {
            warn!(%failure, "waiting for the feed service");
        }
        self.status.send_modify(|status| {
            if status.live {
                status.since = Instant::now();
            }
            status.live = false;
            status.reason = failure.to_string();
            // Not known any more; the next watch tells.
            status.problem.clear();
        });
    }
}

/// Returns a pause between half of `delay` and all of it, so that gateways do not come back in step.
fn jittered(delay: Duration) -> Duration {
    let half = delay / 2;
    let share = getrandom::u32().unwrap_or(0);
    half + half.mul_f64(f64::from(share) / f64::from(u32::MAX))
}
