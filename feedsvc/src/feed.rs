//! The feed as the API sees it: where to read, where to propose, what was published.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::access::Rights;
use crate::catalog::{Catalog, CatalogTable, TableName};
use crate::clock::Clock;
use crate::commit::{Pipeline, Writability};
use crate::lease::Leases;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::ring::Ring;
use crate::sealing::Sealing;
use crate::service::Limits;
use crate::store::reads::Reads;

/// The name of the feed that this service owns; empty in a request means the same.
const FEED_NAME: &str = "main";

/// Everything that calls work with.
pub(crate) struct Feed {
    pub(crate) store_id: String,
    pub(crate) limits: Limits,
    pub(crate) reads: Reads,
    pub(crate) pipeline: Pipeline,
    pub(crate) ring: Arc<Ring>,
    /// Seals the cursors of searches.
    pub(crate) sealing: Sealing,
    pub(crate) leases: Arc<Leases>,
    pub(crate) catalog: watch::Receiver<Arc<Catalog>>,
    pub(crate) rights: watch::Receiver<Arc<Rights>>,
    /// Whether the store can be written; its sender goes with the committer.
    pub(crate) writability: watch::Receiver<Writability>,
    /// Ends all watches.
    pub(crate) shutdown: CancellationToken,
    /// The oldest revision that the log has; it never falls.
    pub(crate) oldest: Arc<AtomicU64>,
    /// How many watches are open.
    pub(crate) watch_count: AtomicU64,
    /// One backup or check at a time: each reads everything.
    pub(crate) whole_reads: Arc<Semaphore>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Feed {
    /// Checks that a request means this feed.
    pub(crate) fn check_name(&self, name: &str) -> Result<(), Refusal> {
        if name.is_empty() || name == FEED_NAME {
            return Ok(());
        }
        Err(Refusal::UnknownFeed {
            feed: name.to_owned(),
        })
    }

    /// Returns the oldest revision that the log has.
    pub(crate) fn oldest(&self) -> Revision {
        Revision(self.oldest.load(Ordering::Relaxed))
    }

    /// Returns the catalogue as it is now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.borrow())
    }

    /// Returns the rights as they are now: at least those of the last commit that was acknowledged.
    pub(crate) fn rights(&self) -> Arc<Rights> {
        Arc::clone(&self.rights.borrow())
    }

    /// Returns a table of the catalogue.
    pub(crate) fn get_table(&self, name: &TableName) -> Result<Arc<CatalogTable>, Refusal> {
        let table = self.catalog.borrow().find(name).cloned();
        table.ok_or_else(|| Refusal::UnknownTable { table: name.clone() })
    }
}
