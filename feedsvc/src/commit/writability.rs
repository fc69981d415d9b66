//! Whether the store can be written at the moment: what health, status and watches tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{error, info};

use crate::store::StoreError;

/// Whether the last transaction that had something to write could be committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Writability {
    #[default]
    Writable,
    /// It could not, and this is why.
    Failing { problem: Arc<str> },
}

impl Writability {
    /// Returns why the store cannot be written; empty if it can.
    pub(crate) fn problem(&self) -> &str {
        match self {
            Writability::Writable => "",
            Writability::Failing { problem } => problem,
        }
    }
}

/// What is kept of transactions that were lost, so that a full disk does not fill the log of the process as well.
#[derive(Debug, Default)]
pub(super) struct Outage {
    lost_count: u64,
    told: Option<Duration>,
}

/// How often a store that still cannot be written is told of.
const TOLD_INTERVAL: Duration = Duration::from_secs(30);

impl Outage {
    /// Notes that something was committed.
    pub(super) fn note_success(&mut self, writability: &watch::Sender<Writability>) {
        if set(writability, Writability::Writable) {
            info!(
                lost_transactions = self.lost_count,
                "the store can be written again"
            );
            self.lost_count = 0;
        }
    }

    /// Notes that a transaction was lost; `now` is the monotonic time.
    pub(super) fn note_loss(
        &mut self,
        writability: &watch::Sender<Writability>,
        error: &StoreError,
        now: Duration,
    ) {
        let problem = error.to_string().into();
        set(writability, Writability::Failing { problem });
        self.lost_count += 1;
        let is_due = self.told.is_none_or(|told| now >= told + TOLD_INTERVAL);
        // A store on the brink changes its state with every commit; so the interval holds across states too.
        if is_due {
            self.told = Some(now);
            error!(
                error = %error,
                lost_transactions = self.lost_count,
                "a transaction was lost; the store is tried every second until it can be written"
            );
        }
    }
}

/// Tells whether the store can be written; returns whether that is news.
fn set(writability: &watch::Sender<Writability>, state: Writability) -> bool {
    writability.send_if_modified(|present| {
        let has_changed = *present != state;
        *present = state;
        has_changed
    })
}
