//! The stream of a watch: a cursor that is pulled, with no queue of its own.
//!
//! tonic asks for the next answer when HTTP/2 has room for it, so a reader that stops costs one answer of memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use prost::Message;
use proto::feed::v1::{EncodedWatchResponse, WatchRequest};
use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::Status;

use super::request::invalid;
use super::status::status;
use crate::chain::ChainHash;
use crate::entry::decode_with_values;
use crate::feed::Feed;
use crate::lease::LeaseGuard;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::ring::RingRead;
use crate::store::{LogEntry, LogQuery, StoreError};
use crate::writability::Writability;

/// How much one answer carries, unless a single entry is larger. A reader that stops costs about two of them, and what the allocator
/// keeps of making them; larger ones are not faster.
const ANSWER_LIMIT_BYTES: usize = 128 * 1024;
/// How many entries are read from the store at a time; an entry without values has about 100 bytes.
const STORE_PAGE_ENTRIES: usize = 10_000;
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
    Ended,
}

impl WatchStream {
    /// Checks where the watch is to begin; from here on its instance holds a lease.
    pub(super) async fn open(feed: Arc<Feed>, request: WatchRequest) -> Result<WatchStream, Refusal> {
        if request.instance.len() > INSTANCE_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "the instance's name",
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
            .await?;
        let is_checked = !request.from_head && !request.after_hash.is_empty();
        if is_checked && request.after_hash != hash.as_bytes().as_slice() {
            return Err(Refusal::LostHistory { head });
        }
        let lease = (!request.instance.is_empty()).then(|| feed.leases.hold(&request.instance));
        let mut watch = Watch {
            hash,
            bell: feed.ring.bell(),
            writability: feed.writability.clone(),
            cursor,
            values: if request.include_values {
                Values::Included
            } else {
                Values::LeftOut
            },
            _lease: lease,
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
        let State::Working(step) = &mut self.state else {
            return Poll::Ready(None);
        };
        let (watch, answer) = match step.as_mut().poll(context) {
            Poll::Ready(done) => done,
            Poll::Pending => return Poll::Pending,
        };
        match answer {
            Ok(answer) => {
                self.state = State::Working(Box::pin(watch.next()));
                Poll::Ready(Some(Ok(answer)))
            }
            Err(refusal) => {
                // The lease goes with the watch.
                self.state = State::Ended;
                Poll::Ready(Some(Err(status(refusal))))
            }
        }
    }
}

/// Whether entries carry the records before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Included,
    LeftOut,
}

/// What a watch without anything to send was woken by.
enum Woken {
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
    /// The log's hash there.
    hash: ChainHash,
    values: Values,
    bell: watch::Receiver<Revision>,
    /// Its changes are sent, so that a gateway's readiness tells the truth.
    writability: watch::Receiver<Writability>,
    _lease: Option<LeaseGuard>,
}

impl Watch {
    /// Waits until there is something after the cursor, and makes an answer of it.
    async fn next(mut self) -> (Watch, Answer) {
        loop {
            if self.feed.shutdown.is_cancelled() {
                return (self, Err(Refusal::Unavailable));
            }
            // Seen before the ring is read: what comes later rings again.
            let head = *self.bell.borrow_and_update();
            let read = match self.values {
                Values::LeftOut => self.feed.ring.read_after(self.cursor, ANSWER_LIMIT_BYTES),
                Values::Included if head > self.cursor => RingRead::Behind,
                Values::Included => RingRead::Current,
            };
            match read {
                RingRead::Entries {
                    entries,
                    progress,
                    progress_hash,
                    head,
                } => {
                    self.cursor = progress;
                    self.hash = progress_hash;
                    let answer = self.answer(entries, head);
                    return (self, Ok(answer));
                }
                RingRead::Behind => {
                    let answer = self.read_store().await;
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

    async fn read_store(&mut self) -> Answer {
        let values = self.values;
        let query = LogQuery {
            after: self.cursor,
            until: None,
            entry_limit: STORE_PAGE_ENTRIES,
            limit_bytes: ANSWER_LIMIT_BYTES,
            with_values: values == Values::Included,
            targets: None,
        };
        let read = self.feed.reads.run(move |reader| {
            let page = reader.read_log(&query)?;
            let hash = page.entries.last().map(|entry| entry.hash);
            let entries = page.entries.into_iter().map(|entry| encode(entry, values));
            Ok((
                entries.collect::<Result<Vec<_>, _>>()?,
                page.progress,
                hash,
                page.bounds,
            ))
        });
        let (entries, progress, hash, bounds) = read.await?;
        self.cursor = progress;
        self.hash = hash.unwrap_or(self.hash);
        Ok(self.answer(entries, bounds.head))
    }

    fn answer(&mut self, entries: Vec<Bytes>, head: Revision) -> EncodedWatchResponse {
        EncodedWatchResponse {
            entries,
            progress: self.cursor.0,
            // The store may be ahead of what was published when the answer was made, and the cursor with it.
            head: head.max(self.cursor).0,
            oldest: self.feed.oldest().0,
            store_id: self.feed.store_id.clone(),
            progress_hash: Bytes::copy_from_slice(self.hash.as_bytes()),
            problem: self.writability.borrow_and_update().problem().to_owned(),
        }
    }
}

/// Returns the entry as it is sent.
fn encode(entry: LogEntry, values: Values) -> Result<Bytes, StoreError> {
    match values {
        Values::LeftOut => Ok(entry.encoded),
        Values::Included => match decode_with_values(&entry.encoded, entry.before, entry.after) {
            Ok(entry) => Ok(entry.encode_to_vec().into()),
            Err(_) => Err(StoreError::Damaged {
                problem: "an entry that does not parse",
                revision: entry.revision,
            }),
        },
    }
}
