//! The stream of a watch: a cursor that is pulled, with no queue of its own.
//!
//! tonic asks for the next answer when HTTP/2 has room for it, and one more is made ahead, so that the store is read while the answer
//! before it is sent: a reader that stops costs two answers of memory. What was made before a change of rights is made again.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use proto::feed::v1::{EncodedWatchResponse, TableFilter, WatchRequest, WatchResponse};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_stream::Stream;
use tonic::Status;
use tracing::warn;

use super::log;
use super::request::invalid;
use super::status::status;
use super::watch_sight::WatchSight;
use crate::access::Rights;
use crate::bells::Bell;
use crate::catalog::{Catalog, TableId, TableName};
use crate::chain::ChainHash;
use crate::commit::Writability;
use crate::feed::Feed;
use crate::lease::LeaseGuard;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::ring::RingRead;
use crate::store::{LogQuery, StoreError, Target};

/// How much one answer carries, unless a single entry is larger. A reader that stops costs about two of them, one sent in
/// part and one made ahead, and what the allocator keeps of making them.
const ANSWER_LIMIT_BYTES: usize = 128 * 1024;
/// How many entries are read from the store at a time; an entry without values has about 100 bytes.
const STORE_PAGE_ENTRIES: usize = 10_000;
/// The most tables of a watch (feed.proto).
const FILTER_TABLES_MAX: usize = 1_000;
/// The longest name of an instance.
const INSTANCE_LIMIT_BYTES: usize = 200;

type Answer = Result<EncodedWatchResponse, Refusal>;
type Step = Pin<Box<dyn Future<Output = (Watch, Answer)> + Send>>;

/// The answers of one watch.
pub(super) struct WatchStream {
    state: State,
}

enum State {
    /// The next answer is being made.
    Working(Step),
    /// It was made ahead.
    Ready(Box<(Watch, Answer)>),
    Ended,
}

impl WatchStream {
    /// Checks where the watch is to begin; from here on its instance holds a lease.
    pub(super) async fn open(
        feed: Arc<Feed>,
        request: WatchRequest,
        sight: WatchSight,
    ) -> Result<WatchStream, Refusal> {
        if request.instance.len() > INSTANCE_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "the instance's name",
                limit: INSTANCE_LIMIT_BYTES,
            });
        }
        if request.address.len() > INSTANCE_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "the instance's address",
                limit: INSTANCE_LIMIT_BYTES,
            });
        }
        if !request.after_hash.is_empty() && ChainHash::from_bytes(&request.after_hash).is_none() {
            return Err(invalid("after_hash", "it has not 32 bytes"));
        }
        let start = if request.from_head {
            None
        } else {
            Some(Revision(request.after_revision))
        };
        let (cursor, hash, head) = feed
            .reads
            .run(move |reader| {
                let cursor = match start {
                    Some(cursor) => cursor,
                    None => reader.bounds()?.head,
                };
                let hash = reader.hash_at(cursor)?;
                Ok((cursor, hash.value, hash.revision))
            })
            .await
            .inspect_err(|error| {
                if let StoreError::BeyondHead { head } = error {
                    warn_of_other_history(&request, *head);
                }
            })?;
        let is_checked = !request.from_head && !request.after_hash.is_empty();
        if is_checked && request.after_hash != hash.as_bytes().as_slice() {
            warn_of_other_history(&request, head);
            return Err(Refusal::LostHistory { head });
        }
        let filter = Filter::new(&feed, &request.tables)?;
        let lease =
            (!request.instance.is_empty()).then(|| feed.leases.hold(&request.instance, &request.address));
        let mut watch = Watch {
            bell: feed.ring.bell(),
            writability: feed.writability.clone(),
            cursor,
            sight,
            rights: feed.rights.clone(),
            filter,
            sent: cursor,
            sent_at: Instant::now(),
            cursor_hash: hash,
            delivered: (cursor, hash),
            _lease: lease,
            _count: OpenWatch::count(&feed),
            feed,
        };
        let first = watch.answer(Vec::new(), head);
        Ok(WatchStream {
            state: State::Working(Box::pin(std::future::ready((watch, Ok(first))))),
        })
    }
}

impl Stream for WatchStream {
    type Item = Result<EncodedWatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let (mut watch, answer) = match std::mem::replace(&mut self.state, State::Ended) {
                State::Working(mut step) => match step.as_mut().poll(context) {
                    Poll::Ready(done) => done,
                    Poll::Pending => {
                        self.state = State::Working(step);
                        return Poll::Pending;
                    }
                },
                State::Ready(done) => *done,
                State::Ended => return Poll::Ready(None),
            };
            let answer = match answer {
                Ok(_) if watch.is_overtaken() => {
                    watch.rewind();
                    self.state = State::Working(Box::pin(watch.next()));
                    continue;
                }
                Ok(answer) => answer,
                // The lease goes with the watch.
                Err(refusal) => return Poll::Ready(Some(Err(status(refusal)))),
            };
            watch.delivered = (watch.cursor, watch.cursor_hash);
            let mut step: Step = Box::pin(watch.next());
            // The store is read while this answer is sent.
            self.state = match step.as_mut().poll(context) {
                Poll::Ready(done) => State::Ready(Box::new(done)),
                Poll::Pending => State::Working(step),
            };
            return Poll::Ready(Some(Ok(answer)));
        }
    }
}

/// What a watch without anything to send was woken by.
enum Woken {
    /// There may be something to send.
    Rung,
    /// The store can be written, or no longer.
    Blocked,
    Ended,
}

/// A watch between two answers.
struct Watch {
    feed: Arc<Feed>,
    /// Everything up to here was sent.
    cursor: Revision,
    sight: WatchSight,
    /// Tells of other rights.
    rights: watch::Receiver<Arc<Rights>>,
    /// `None`: everything.
    filter: Option<Filter>,
    /// Up to where the last answer went, and when it was made.
    sent: Revision,
    sent_at: Instant,
    /// The log's hash at the cursor.
    cursor_hash: ChainHash,
    /// Up to where answers were handed over, and the hash there.
    delivered: (Revision, ChainHash),
    bell: watch::Receiver<Revision>,
    /// Its changes are sent, so that a gateway's readiness tells the truth.
    writability: watch::Receiver<Writability>,
    _lease: Option<LeaseGuard>,
    _count: OpenWatch,
}

impl Watch {
    /// Whether rights have changed since the answer that was just made, which is then of no use: it was made ahead.
    fn is_overtaken(&self) -> bool {
        !self.sight.is_current(&self.feed)
    }

    /// Goes back to what was delivered.
    fn rewind(&mut self) {
        (self.cursor, self.cursor_hash) = self.delivered;
    }

    /// Waits until there is something after the cursor, and makes an answer of it.
    async fn next(mut self) -> (Watch, Answer) {
        loop {
            if self.feed.shutdown.is_cancelled() {
                return (self, Err(Refusal::Unavailable));
            }
            if self.filter.is_some() {
                match self.next_of_tables().await {
                    Ok(Some(answer)) => return (self, Ok(answer)),
                    Ok(None) => continue,
                    Err(refusal) => return (self, Err(refusal)),
                }
            }
            // Seen before the ring is read: what comes later rings again.
            let head = *self.bell.borrow_and_update();
            // After the head: rights are published before the entries that change them.
            if let Err(refusal) = self.sight.refresh(&self.feed) {
                return (self, Err(refusal));
            }
            let read = if !self.sight.needs_values() {
                self.feed.ring.read_after(self.cursor, ANSWER_LIMIT_BYTES)
            } else if head > self.cursor {
                RingRead::Behind
            } else {
                RingRead::Current
            };
            match read {
                RingRead::Entries { entries, .. } if self.sight.needs_values_of(&entries) => {
                    let query = self.store_query();
                    let answer = self.read_store(query).await;
                    return (self, answer);
                }
                RingRead::Entries {
                    entries,
                    progress,
                    progress_hash,
                    head,
                } => {
                    self.cursor = progress;
                    self.cursor_hash = progress_hash;
                    let answer = self.answer(entries, head);
                    return (self, Ok(answer));
                }
                RingRead::Behind => {
                    let query = self.store_query();
                    let answer = self.read_store(query).await;
                    return (self, answer);
                }
                RingRead::Current => {
                    let shutdown = self.feed.shutdown.clone();
                    let woken = tokio::select! {
                        rung = self.bell.changed() => rung.map_or(Woken::Ended, |()| Woken::Rung),
                        changed = self.writability.changed() => changed.map_or(Woken::Ended, |()| Woken::Blocked),
                        () = shutdown.cancelled() => Woken::Ended,
                    };
                    match woken {
                        Woken::Rung => {}
                        Woken::Blocked => {
                            let answer = self.answer(Vec::new(), head);
                            return (self, Ok(answer));
                        }
                        Woken::Ended => return (self, Err(Refusal::Unavailable)),
                    }
                }
            }
        }
    }

    /// Takes one step of a watch of some tables: an answer, or with `None` a step without one.
    ///
    /// Commits on other tables do not wake it; so that its cursor moves on all the same, it looks by itself now and then.
    async fn next_of_tables(&mut self) -> Result<Option<EncodedWatchResponse>, Refusal> {
        let Some(filter) = &mut self.filter else {
            return Ok(None);
        };
        // The head first: the tables of all entries up to it are in the catalogue, which is published before.
        let head = self.feed.ring.head();
        filter.resolve(&self.feed);
        // After the head: rights are published before the entries that change them.
        self.sight.refresh(&self.feed)?;
        let read = self
            .feed
            .ring
            .read_wanted(self.cursor, head, ANSWER_LIMIT_BYTES, |table| filter.wants(table));
        match read {
            RingRead::Entries {
                entries,
                progress,
                progress_hash,
                head,
            } if entries.is_empty()
                || !(self.sight.needs_values() || self.sight.needs_values_of(&entries)) =>
            {
                self.cursor = progress;
                self.cursor_hash = progress_hash;
                if !entries.is_empty() || self.is_bookmark_due() {
                    self.note_sent();
                    return Ok(Some(self.answer(entries, head)));
                }
                // Much of the ring may have to be passed over.
                tokio::task::yield_now().await;
                Ok(None)
            }
            RingRead::Entries { .. } | RingRead::Behind => {
                let query = LogQuery {
                    until: Some(head),
                    targets: Some(filter.targets()),
                    with_sessions: filter.with_sessions,
                    ..self.store_query()
                };
                let answer = self.read_store(query).await?;
                if answer.entries.is_empty() && !self.is_bookmark_due() {
                    return Ok(None);
                }
                self.note_sent();
                Ok(Some(answer))
            }
            RingRead::Current if self.is_bookmark_due() => {
                self.note_sent();
                Ok(Some(self.answer(Vec::new(), head)))
            }
            RingRead::Current => match self.wait_for_tables().await {
                Woken::Rung => Ok(None),
                Woken::Blocked => {
                    self.note_sent();
                    Ok(Some(self.answer(Vec::new(), head)))
                }
                Woken::Ended => Err(Refusal::Unavailable),
            },
        }
    }

    /// Waits until there may be something for a watch of some tables, or it is time to look by itself.
    async fn wait_for_tables(&mut self) -> Woken {
        let looks_at = self.sent_at + self.feed.limits.bookmark_interval;
        let Some(filter) = &mut self.filter else {
            return Woken::Rung;
        };
        tokio::select! {
            () = filter.bell.rung() => {}
            _ = filter.changes.changed() => {}
            _ = self.rights.changed() => {}
            changed = self.writability.changed() => return changed.map_or(Woken::Ended, |()| Woken::Blocked),
            () = sleep_until(looks_at) => {
                // With nothing new there is nothing to say.
                if self.sent == self.feed.ring.head() {
                    self.sent_at = Instant::now();
                }
            }
            () = self.feed.shutdown.cancelled() => return Woken::Ended,
        }
        Woken::Rung
    }

    /// Whether the cursor has moved on without an answer for long enough.
    fn is_bookmark_due(&self) -> bool {
        self.cursor > self.sent && self.sent_at.elapsed() >= self.feed.limits.bookmark_interval
    }

    fn note_sent(&mut self) {
        self.sent = self.cursor;
        self.sent_at = Instant::now();
    }

    /// Returns the query for the next page of everything.
    fn store_query(&self) -> LogQuery {
        LogQuery {
            entry_limit: STORE_PAGE_ENTRIES,
            limit_bytes: ANSWER_LIMIT_BYTES,
            scan_limit: log::SCAN_LIMIT,
            with_values: self.sight.reads_values(),
            ..LogQuery::after(self.cursor)
        }
    }

    async fn read_store(&mut self, query: LogQuery) -> Answer {
        let sight = self.sight.clone();
        let is_everything = query.targets.is_none() && !sight.reads_values();
        let read = self.feed.reads.run(move |reader| {
            if is_everything {
                let page = reader.read_encoded(query.after, query.limit_bytes)?;
                return Ok((page.entries, page.progress, page.progress_hash, page.bounds));
            }
            let page = reader.read_log(&query)?;
            let hash = page.progress_hash;
            Ok((sight.encode(page.entries)?, page.progress, hash, page.bounds))
        });
        let (entries, progress, hash, bounds) = read.await?;
        self.cursor = progress;
        self.cursor_hash = hash;
        Ok(self.answer(entries, bounds.head))
    }

    fn answer(&mut self, entries: Vec<Bytes>, head: Revision) -> EncodedWatchResponse {
        EncodedWatchResponse {
            entries,
            position: WatchResponse {
                entries: Vec::new(),
                progress: self.cursor.0,
                // The store may be ahead of what was published when the answer was made, and the cursor with it.
                head: head.max(self.cursor).0,
                oldest: self.feed.oldest().0,
                store_id: self.feed.store_id.clone(),
                progress_hash: Bytes::copy_from_slice(self.cursor_hash.as_bytes()),
                problem: self.writability.borrow_and_update().problem().to_owned(),
            },
        }
    }
}

/// The tables that a watch is about.
struct Filter {
    names: Vec<TableName>,
    with_sessions: bool,
    /// The catalogue in which the names were looked up, and what was found.
    catalog: Arc<Catalog>,
    tables: HashSet<TableId>,
    /// Tells of another catalogue.
    changes: watch::Receiver<Arc<Catalog>>,
    bell: Bell,
}

impl Filter {
    fn new(feed: &Feed, tables: &[TableFilter]) -> Result<Option<Filter>, Refusal> {
        if tables.is_empty() {
            return Ok(None);
        }
        if tables.len() > FILTER_TABLES_MAX {
            return Err(invalid("tables", "there are more than 1000"));
        }
        let is_sessions = |table: &&TableFilter| table.database.is_empty() && table.table.is_empty();
        let names = tables.iter().filter(|table| !is_sessions(table));
        let mut filter = Filter {
            names: names
                .map(|table| TableName::new(&table.database, &table.table))
                .collect(),
            with_sessions: tables.iter().any(|table| is_sessions(&table)),
            catalog: feed.catalog(),
            tables: HashSet::new(),
            changes: feed.catalog.clone(),
            bell: feed.ring.bells().listen(Vec::new()),
        };
        filter.look_up(feed);
        Ok(Some(filter))
    }

    /// Looks the names up again if the catalogue is another one: a table may have been made since.
    fn resolve(&mut self, feed: &Feed) {
        let catalog = Arc::clone(&self.changes.borrow_and_update());
        if !Arc::ptr_eq(&catalog, &self.catalog) {
            self.catalog = catalog;
            self.look_up(feed);
        }
    }

    fn look_up(&mut self, feed: &Feed) {
        let tables: HashSet<TableId> = self
            .names
            .iter()
            .filter_map(|name| self.catalog.find_id(name))
            .collect();
        let sessions = self.with_sessions.then_some(None);
        let subjects = tables.iter().copied().map(Some).chain(sessions).collect();
        self.bell = feed.ring.bells().listen(subjects);
        self.tables = tables;
    }

    fn wants(&self, table: Option<TableId>) -> bool {
        match table {
            Some(table) => self.tables.contains(&table),
            None => self.with_sessions,
        }
    }

    fn targets(&self) -> Vec<Target> {
        let tables = self.tables.iter();
        tables
            .map(|table| Target {
                table: *table,
                key: None,
            })
            .collect()
    }
}

/// One open watch among those that are counted.
struct OpenWatch(Arc<Feed>);

impl OpenWatch {
    fn count(feed: &Arc<Feed>) -> OpenWatch {
        feed.watch_count.fetch_add(1, Ordering::Relaxed);
        OpenWatch(Arc::clone(feed))
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.watch_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the operator what only a reader can know: it has seen commits that this store does not have.
fn warn_of_other_history(request: &WatchRequest, head: Revision) {
    warn!(
        revision = request.after_revision,
        head = head.0,
        instance = %request.instance,
        "a reader comes from another history; if the data directory was replaced by an older copy, restore it with `feedsvc restore` instead"
    );
}
