//! What the clients, the writers and the operator of a run share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::feed::v1::{CommitRequest, RecordOperation};
use tokio::sync::watch;
use tokio::time::sleep;

use super::connection::Shared;
use super::history::{Commit, History, Kind, Watched};
use crate::harness::random::Random;
use crate::harness::truth::{Truth, delete, put};

/// The tables that change.
pub const TABLES: [&str; 3] = ["Item", "Number", "Product"];
/// Keys of each table that change.
pub const KEYS: u64 = 30;

/// How far a run is.
#[derive(Clone, Debug)]
pub enum Phase {
    /// Everybody does what comes to mind.
    Busy,
    /// Clients only see to it that they have a stream.
    Calm,
    /// They read until they have seen this, and end.
    Ending(Arc<End>),
    /// They end as they are.
    Over,
}

/// What there is to be seen in the end.
#[derive(Debug)]
pub struct End {
    pub until: u64,
    /// When the last commit began.
    pub begun: Instant,
    /// The id of the last notice of everything that changes.
    pub newest: HashMap<Watched, u64>,
    /// What each session is subscribed to.
    pub active: HashMap<String, Vec<Arc<str>>>,
}

/// One run.
pub struct Traffic {
    pub gateways: Vec<SocketAddr>,
    pub phase: watch::Sender<Phase>,
    /// Slow clients read nothing while it is true.
    pub stall: watch::Sender<bool>,
    pub commits: Mutex<Vec<Commit>>,
    pub histories: Mutex<Vec<Shared>>,
    pub counts: Counts,
    truth: Truth,
}

/// How often clients did what.
#[derive(Debug, Default)]
pub struct Counts {
    pub requests: AtomicU64,
    pub takeovers: AtomicU64,
    pub cuts: AtomicU64,
    pub stalls: AtomicU64,
    pub deletes: AtomicU64,
    pub subscribes: AtomicU64,
    pub unsubscribes: AtomicU64,
    /// Calls that failed or were refused because something was away.
    pub in_vain: AtomicU64,
    /// Clients that have their session, stream and subscriptions.
    pub begun: AtomicU64,
    pub calm: AtomicU64,
}

impl Traffic {
    pub fn new(gateways: Vec<SocketAddr>, truth: Truth) -> Arc<Traffic> {
        Arc::new(Traffic {
            gateways,
            phase: watch::Sender::new(Phase::Busy),
            stall: watch::Sender::new(false),
            commits: Mutex::default(),
            histories: Mutex::default(),
            counts: Counts::default(),
            truth,
        })
    }

    /// Chooses a gateway, as a balancer does that knows nothing of sessions.
    pub fn some_gateway(&self, random: &mut Random) -> SocketAddr {
        self.gateways[random.below(self.gateways.len() as u64) as usize]
    }

    /// Returns the gateway that is left alone where others are killed.
    pub fn unbroken_gateway(&self) -> SocketAddr {
        self.gateways[0]
    }

    /// Begins a history.
    pub fn history(&self, who: String, kind: Kind) -> Shared {
        let history = History {
            who,
            kind,
            calls: Vec::new(),
            connections: Vec::new(),
            reads: Vec::new(),
            complaints: Vec::new(),
            complete_until: None,
        };
        let shared = Arc::new(Mutex::new(history));
        self.histories.lock().unwrap().push(Arc::clone(&shared));
        shared
    }

    /// Commits until it is acknowledged, whatever happens to the feed service; returns the last revision.
    pub async fn commit(&self, operations: Vec<RecordOperation>) -> u64 {
        let changes: Vec<Watched> = operations
            .iter()
            .map(|operation| Watched::record(&operation.table, &operation.key))
            .collect();
        let index = {
            let mut commits = self.commits.lock().unwrap();
            commits.push(Commit {
                started: Instant::now(),
                changes,
                acknowledged: None,
            });
            commits.len() - 1
        };
        let request = CommitRequest {
            operations,
            idempotency_key: format!("commit {index}"),
            ..Default::default()
        };
        loop {
            match self.truth.client().commit(request.clone()).await {
                Ok(answer) => {
                    let results = answer.into_inner().results;
                    let mut commits = self.commits.lock().unwrap();
                    let commit = &mut commits[index];
                    let mut changed = results.iter().map(|result| result.revision > 0);
                    commit.changes.retain(|_| changed.next().unwrap_or(false));
                    let end = results.iter().map(|result| result.revision).max().unwrap_or(0);
                    commit.acknowledged = Some((Instant::now(), end));
                    return end;
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// How many commits were acknowledged, and how many are under way.
    pub fn progress(&self) -> (usize, usize) {
        let commits = self.commits.lock().unwrap();
        let done = commits
            .iter()
            .filter(|commit| commit.acknowledged.is_some())
            .count();
        (done, commits.len() - done)
    }

    /// Writes until the phase is over.
    pub async fn write(self: Arc<Traffic>, mut random: Random) {
        while matches!(*self.phase.borrow(), Phase::Busy) {
            self.commit(some_operations(&mut random)).await;
            sleep(Duration::from_millis(15 + random.below(30))).await;
        }
    }
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Some changes: one record, several, or two of one key in two tables.
fn some_operations(random: &mut Random) -> Vec<RecordOperation> {
    let mut operations = Vec::new();
    for _ in 0..1 + random.below(3) {
        let key = random.below(KEYS).to_string();
        match random.below(8) {
            0 => operations.push(delete("Number", &key)),
            1..=3 => {
                operations.push(put("Item", &key, "{}"));
                operations.push(put("Product", &key, r#"{"name":"n"}"#));
            }
            4 => operations.push(put("Product", &key, r#"{"name":"m"}"#)),
            5 => operations.push(put("Item", &key, r#"{"name":"i"}"#)),
            _ => operations.push(put("Number", &key, "{}")),
        }
    }
    operations
}

/// A change of every record that anybody can be subscribed to.
pub fn all_operations() -> Vec<RecordOperation> {
    let keys = (0..KEYS).map(|key| key.to_string());
    keys.flat_map(|key| {
        [
            put("Item", &key, r#"{"name":"last"}"#),
            put("Number", &key, r#"{"int":1}"#),
            put("Product", &key, r#"{"name":"last"}"#),
        ]
    })
    .collect()
}
