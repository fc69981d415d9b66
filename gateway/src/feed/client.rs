//! Calls to the feed service: one method per call of the contract that the gateway needs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::feed::v1;
use proto::feed::v1::feed_client::FeedClient as FeedStub;
use proto::feed::v1::keys_client::KeysClient as KeysStub;
use proto::feed::v1::sessions_client::SessionsClient as SessionsStub;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use super::FEED;
use super::catalog::{Catalog, Table};
use super::entry::Entry;
use super::error::FeedError;
use super::keyring::SealingKey;

/// HTTP/2 window of one call. Large enough that a page of 1 MiB needs no round trip in between.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;

/// HTTP/2 window of a connection: more than the streams that may stall take together (the rule of windows at `Watch` in feed.proto). Answers
/// to calls are read as they come, so 16 streams are plenty; the watch, which may be held back, has a connection of its own.
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;

/// The largest answer that is read: a record of the largest size, with room for its envelope.
const ANSWER_LIMIT_BYTES: usize = 64 * 1024 * 1024;

/// A handle for calls to the feed service. Cheap to clone; connects by itself, and again after the service was away.
///
/// Every call waits for its answer. Dropping the future of a call that writes leaves open whether it was carried out.
#[derive(Clone)]
pub(crate) struct FeedClient {
    feed: FeedStub<Channel>,
    sessions: SessionsStub<Channel>,
    keys: KeysStub<Channel>,
    /// The watch has a connection of its own: nothing that calls do can hold it up.
    watch: FeedStub<Channel>,
    instance: String,
    call_timeout: Duration,
    /// Where other instances reach this one; empty: nowhere.
    address: String,
}

/// How long the feed service is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For a connection. On one network it takes a millisecond; a request must not hang on a dead host.
    pub(crate) connect: Duration,
    /// For a call. The feed service answers in milliseconds unless its disk stalls.
    pub(crate) call: Duration,
    /// How often a connection is probed while calls are open.
    pub(crate) keep_alive_interval: Duration,
    /// For the answer to such a probe.
    pub(crate) keep_alive_answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(2),
            call: Duration::from_secs(30),
            keep_alive_interval: Duration::from_secs(5),
            keep_alive_answer: Duration::from_secs(5),
        }
    }
}

/// A record, or with no key a whole table.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The table.
    pub(crate) table: Arc<Table>,
    /// The record's key; `None` for the whole table.
    pub(crate) key: Option<String>,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord {
    /// The revision of its last change.
    pub(crate) revision: u64,
    /// The JSON object, digit for digit as written.
    pub(crate) value: Bytes,
}

/// What must hold for a record before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// Nothing.
    None,
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is there, and this is the revision of its last change.
    Revision(u64),
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The change's revision; 0: nothing changed.
    pub(crate) revision: u64,
    /// Whether the record existed before.
    pub(crate) existed: bool,
}

/// A session's durable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// The name of the principal that it belongs to; empty: anonymous.
    pub(crate) principal: String,
    /// The protocol version that was negotiated.
    pub(crate) protocol_version: String,
    /// What it is subscribed to.
    pub(crate) subscriptions: Vec<StoredSubscription>,
}

/// A subscription in a session's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredSubscription {
    /// The canonical URI.
    pub(crate) uri: String,
    /// As the client wrote it.
    pub(crate) spelling: String,
    /// Changes with a higher revision notify.
    pub(crate) revision: u64,
}

/// The instance that holds a session's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamOwner {
    /// Its name.
    pub(crate) instance: String,
    /// Where other instances reach it; empty: nowhere.
    pub(crate) address: String,
}

/// The answer to the opening of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The open's own revision: the fencing token.
    pub(crate) fence: u64,
    /// The oldest revision that the log still had then.
    pub(crate) oldest: u64,
    /// The record as of `fence`.
    pub(crate) session: SessionRecord,
}

impl FeedClient {
    /// Makes a handle for the service at `address`, a URI such as `http://127.0.0.1:9928`. Does not connect yet.
    ///
    /// `instance` names this gateway process in what it writes.
    pub(crate) fn new(address: http::Uri, instance: String, timeouts: Timeouts) -> FeedClient {
        let endpoint = Endpoint::from(address)
            .connect_timeout(timeouts.connect)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(timeouts.keep_alive_interval)
            .keep_alive_timeout(timeouts.keep_alive_answer);
        let calls = endpoint.connect_lazy();
        FeedClient {
            feed: FeedStub::new(calls.clone()).max_decoding_message_size(ANSWER_LIMIT_BYTES),
            sessions: SessionsStub::new(calls.clone()),
            keys: KeysStub::new(calls),
            watch: FeedStub::new(endpoint.connect_lazy()).max_decoding_message_size(ANSWER_LIMIT_BYTES),
            instance,
            call_timeout: timeouts.call,
            address: String::new(),
        }
    }

    /// Notes in the records of streams that are opened from now on where other instances reach this one.
    pub(crate) fn reached_at(self, address: String) -> FeedClient {
        FeedClient { address, ..self }
    }

    /// Gives a message its deadline.
    fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.call_timeout);
        request
    }

    /// Returns the name of this gateway process.
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// Reads the present record, or `None` if there is none, with the revision that the answer reflects.
    pub(crate) async fn read_record(
        &self,
        principal: &str,
        database: &str,
        table: &str,
        key: &str,
    ) -> Result<(Option<StoredRecord>, u64), FeedError> {
        let request = v1::GetRequest {
            feed: FEED.into(),
            principal: named(principal),
            database: database.into(),
            table: table.into(),
            key: key.into(),
        };
        let answer = self.feed.clone().get(self.call(request)).await?.into_inner();
        let record = answer.record.map(|record| StoredRecord {
            revision: record.revision,
            value: record.value,
        });
        Ok((record, answer.revision))
    }

    /// Says whether a principal may read records of a table; which ones, is another matter.
    pub(crate) async fn may_read(&self, principal: &str, table: &Table) -> Result<bool, FeedError> {
        // Whether there is such a record does not matter.
        match self
            .read_record(principal, &table.database, &table.name, "0")
            .await
        {
            Ok(_) => Ok(true),
            Err(FeedError::PermissionDenied) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Counts the records of a table; returns the count and the revision that it reflects.
    pub(crate) async fn count_records(
        &self,
        principal: &str,
        database: &str,
        table: &str,
    ) -> Result<(u64, u64), FeedError> {
        let request = v1::CountRequest {
            feed: FEED.into(),
            principal: named(principal),
            database: database.into(),
            table: table.into(),
            ..Default::default()
        };
        let answer = self.feed.clone().count(self.call(request)).await?.into_inner();
        Ok((answer.count, answer.revision))
    }

    /// Returns the first keys of a table that begin with `prefix`, by rising key and at most `max`, and how many there are in all;
    /// `None` if that would take too long to count.
    ///
    /// # Errors
    /// [`FeedError::Invalid`] also if the principal may not read the keys, or they are no text.
    pub(crate) async fn find_keys(
        &self,
        principal: &str,
        table: &Table,
        key_attribute: &str,
        prefix: &str,
        max: u32,
    ) -> Result<(Vec<String>, Option<u64>), FeedError> {
        let condition = v1::SearchCondition {
            kind: Some(v1::search_condition::Kind::Comparison(v1::Comparison {
                attribute: key_attribute.into(),
                comparator: v1::Comparator::StartsWith.into(),
                value: serde_json::to_vec(prefix)
                    .map_err(|_| FeedError::Internal)?
                    .into(),
            })),
        };
        let request = v1::SearchRequest {
            feed: FEED.into(),
            principal: named(principal),
            database: table.database.clone(),
            table: table.name.clone(),
            condition: Some(condition.clone()),
            attributes: vec![key_attribute.into()],
            limit: max,
            ..Default::default()
        };
        let found = self.feed.clone().search(self.call(request)).await?.into_inner();
        let keys: Vec<String> = found.records.into_iter().map(|record| record.key).collect();
        if found.next_cursor.is_empty() {
            let count = keys.len() as u64;
            return Ok((keys, Some(count)));
        }
        let request = v1::CountRequest {
            feed: FEED.into(),
            principal: named(principal),
            database: table.database.clone(),
            table: table.name.clone(),
            condition: Some(condition),
        };
        match self.feed.clone().count(self.call(request)).await {
            Ok(counted) => Ok((keys, Some(counted.into_inner().count))),
            Err(status) => match FeedError::from(status) {
                FeedError::Invalid(_) => Ok((keys, None)),
                other => Err(other),
            },
        }
    }

    /// Creates or replaces a record; returns when that is durable.
    pub(crate) async fn put_record(
        &self,
        principal: &str,
        database: &str,
        table: &str,
        key: &str,
        value: Bytes,
        precondition: Precondition,
    ) -> Result<Written, FeedError> {
        let put = v1::record_operation::Action::Put(v1::Put { value });
        self.write_record(principal, database, table, key, put, precondition)
            .await
    }

    /// Deletes a record; returns when that is durable. One that is absent is no error.
    pub(crate) async fn delete_record(
        &self,
        principal: &str,
        database: &str,
        table: &str,
        key: &str,
        precondition: Precondition,
    ) -> Result<Written, FeedError> {
        let delete = v1::record_operation::Action::Delete(v1::Delete {});
        self.write_record(principal, database, table, key, delete, precondition)
            .await
    }

    async fn write_record(
        &self,
        principal: &str,
        database: &str,
        table: &str,
        key: &str,
        action: v1::record_operation::Action,
        precondition: Precondition,
    ) -> Result<Written, FeedError> {
        let operation = v1::RecordOperation {
            database: database.into(),
            table: table.into(),
            key: key.into(),
            precondition: precondition.write(),
            action: Some(action),
        };
        let request = v1::CommitRequest {
            feed: FEED.into(),
            principal: named(principal),
            operations: vec![operation],
            ..v1::CommitRequest::default()
        };
        let answer = self.feed.clone().commit(self.call(request)).await?.into_inner();
        let result = answer.results.first().ok_or(FeedError::Internal)?;
        Ok(Written {
            revision: result.revision,
            existed: result.existed,
        })
    }

    /// Reads the exported tables.
    pub(super) async fn read_catalog(&self) -> Result<Catalog, FeedError> {
        let request = v1::GetCatalogRequest {
            feed: FEED.into(),
            principal: itself(),
        };
        let answer = self
            .feed
            .clone()
            .get_catalog(self.call(request))
            .await?
            .into_inner();
        Ok(Catalog::read(answer.tables))
    }

    /// Opens the watch on everything after `after`, or from the present head on.
    pub(super) async fn watch(
        &self,
        after: Option<(u64, Bytes)>,
    ) -> Result<tonic::Streaming<v1::WatchResponse>, FeedError> {
        let from_head = after.is_none();
        let (after_revision, after_hash) = after.unwrap_or_default();
        let request = v1::WatchRequest {
            feed: FEED.into(),
            principal: itself(),
            after_revision,
            after_hash,
            instance: self.instance.clone(),
            address: self.address.clone(),
            from_head,
            ..Default::default()
        };
        Ok(self.watch.clone().watch(request).await?.into_inner())
    }

    /// Reads a page of the log: changes of `targets` after `after` up to `until`, at most about `max`.
    ///
    /// Returns the entries in rising order and the revision up to which the page looked.
    pub(crate) async fn read_log(
        &self,
        targets: &[Target],
        after: u64,
        until: u64,
        max: u32,
        catalog: &Catalog,
    ) -> Result<(Vec<Entry>, u64), FeedError> {
        let request = v1::ReadLogRequest {
            feed: FEED.into(),
            principal: itself(),
            after_revision: after,
            until_revision: until,
            max_entries: max,
            targets: targets.iter().map(Target::write).collect(),
            ..Default::default()
        };
        let answer = self.feed.clone().read_log(self.call(request)).await?.into_inner();
        let entries = answer
            .entries
            .into_iter()
            .map(|entry| Entry::read(entry, catalog))
            .collect();
        Ok((entries, answer.progress))
    }

    /// Reads the newest revision of each target in `after + 1 ..= until`; 0 where there is none. In the targets' order.
    pub(crate) async fn read_latest(
        &self,
        targets: &[Target],
        after: u64,
        until: u64,
    ) -> Result<Vec<u64>, FeedError> {
        let request = v1::LatestForRequest {
            feed: FEED.into(),
            principal: itself(),
            targets: targets.iter().map(Target::write).collect(),
            after_revision: after,
            until_revision: until,
        };
        let answer = self
            .feed
            .clone()
            .latest_for(self.call(request))
            .await?
            .into_inner();
        if answer.revisions.len() == targets.len() {
            Ok(answer.revisions)
        } else {
            Err(FeedError::Internal)
        }
    }

    /// Reads the keys by which gateways seal, the newest first.
    pub(super) async fn read_sealing_keys(&self) -> Result<Vec<SealingKey>, FeedError> {
        let request = v1::GetSealingKeysRequest {
            feed: FEED.into(),
            principal: itself(),
        };
        let answer = self
            .keys
            .clone()
            .get_sealing_keys(self.call(request))
            .await?
            .into_inner();
        let keys = answer.keys.into_iter().map(|key| {
            let secret = <[u8; 32]>::try_from(&*key.secret).map_err(|_| FeedError::Internal)?;
            Ok(SealingKey { id: key.id, secret })
        });
        keys.collect()
    }

    /// Reads the feed's head, at least that at the call's arrival; `near` is a revision that the caller has seen.
    ///
    /// # Errors
    /// [`FeedError::LostHistory`] or [`FeedError::Compacted`] if the log does not know `near`.
    pub(crate) async fn read_head(&self, near: u64) -> Result<u64, FeedError> {
        let request = v1::LatestForRequest {
            feed: FEED.into(),
            principal: itself(),
            after_revision: near,
            ..Default::default()
        };
        let answer = self
            .feed
            .clone()
            .latest_for(self.call(request))
            .await?
            .into_inner();
        Ok(answer.until_revision)
    }

    /// Makes a session; returns when that is durable.
    pub(crate) async fn create_session(
        &self,
        principal: &str,
        id: &str,
        protocol_version: &str,
        client_info: String,
        client_capabilities: String,
        idle_timeout: Duration,
    ) -> Result<(), FeedError> {
        let request = v1::CreateSessionRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            protocol_version: protocol_version.into(),
            client_info,
            client_capabilities,
            idle_timeout_ms: u64::try_from(idle_timeout.as_millis()).unwrap_or(u64::MAX),
        };
        self.sessions.clone().create_session(self.call(request)).await?;
        Ok(())
    }

    /// Reads a session's record; that of another principal is [`FeedError::UnknownSession`].
    pub(crate) async fn read_session(&self, principal: &str, id: &str) -> Result<SessionRecord, FeedError> {
        let request = v1::GetSessionRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
        };
        let answer = self
            .sessions
            .clone()
            .get_session(self.call(request))
            .await?
            .into_inner();
        answer.session.map(SessionRecord::read).ok_or(FeedError::Internal)
    }

    /// Finds the instance that holds the session's stream.
    pub(crate) async fn find_owner(
        &self,
        principal: &str,
        id: &str,
    ) -> Result<Option<StreamOwner>, FeedError> {
        let request = v1::GetSessionRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
        };
        let answer = self
            .sessions
            .clone()
            .get_session(self.call(request))
            .await?
            .into_inner();
        let session = answer.session.ok_or(FeedError::Internal)?;
        Ok((!session.owner_instance.is_empty()).then_some(StreamOwner {
            instance: session.owner_instance,
            address: session.owner_address,
        }))
    }

    /// Says whether some instance holds a live stream of the session.
    pub(crate) async fn has_live_stream(&self, principal: &str, id: &str) -> Result<bool, FeedError> {
        let request = v1::GetSessionRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
        };
        Ok(self
            .sessions
            .clone()
            .get_session(self.call(request))
            .await?
            .into_inner()
            .stream_live)
    }

    /// Makes this instance the owner of a session's stream.
    pub(crate) async fn open_stream(&self, principal: &str, id: &str) -> Result<Opened, FeedError> {
        let request = v1::OpenStreamRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            instance: self.instance.clone(),
            address: self.address.clone(),
        };
        let answer = self
            .sessions
            .clone()
            .open_stream(self.call(request))
            .await?
            .into_inner();
        let session = answer
            .session
            .map(SessionRecord::read)
            .ok_or(FeedError::Internal)?;
        Ok(Opened {
            fence: answer.fence,
            oldest: answer.oldest,
            session,
        })
    }

    /// Gives the ownership of a session's stream back, if `fence` still stands.
    pub(crate) async fn close_stream(&self, principal: &str, id: &str, fence: u64) -> Result<(), FeedError> {
        let request = v1::CloseStreamRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            fence,
        };
        self.sessions.clone().close_stream(self.call(request)).await?;
        Ok(())
    }

    /// Subscribes a session that has a live stream; returns when that is durable.
    pub(crate) async fn subscribe(
        &self,
        principal: &str,
        id: &str,
        uri: &str,
        spelling: &str,
        max_subscriptions: u32,
    ) -> Result<(), FeedError> {
        let request = v1::SubscribeRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            uri: uri.into(),
            spelling: spelling.into(),
            require_stream: true,
            max_subscriptions,
            ..Default::default()
        };
        self.sessions.clone().subscribe(self.call(request)).await?;
        Ok(())
    }

    /// Unsubscribes a session; returns the revision from which on nothing of the URI is told. `fence` is the open whose stream must
    /// be the present one; 0: whichever is.
    pub(crate) async fn unsubscribe(
        &self,
        principal: &str,
        id: &str,
        uri: &str,
        fence: u64,
    ) -> Result<u64, FeedError> {
        let request = v1::UnsubscribeRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            uri: uri.into(),
            fence,
        };
        Ok(self
            .sessions
            .clone()
            .unsubscribe(self.call(request))
            .await?
            .into_inner()
            .revision)
    }

    /// Returns the gateway instances that watch now, this one among them, each with where it is reached.
    pub(crate) async fn list_instances(&self) -> Result<Vec<(String, String)>, FeedError> {
        let request = v1::ListInstancesRequest {
            feed: FEED.into(),
            principal: itself(),
        };
        let answer = self.sessions.clone().list_instances(self.call(request)).await?;
        let instances = answer.into_inner().instances.into_iter();
        Ok(instances
            .map(|instance| (instance.name, instance.address))
            .collect())
    }

    /// Sets the level from which on log messages are sent to a session's client; returns when that is durable.
    pub(crate) async fn set_log_level(
        &self,
        principal: &str,
        id: &str,
        level: &str,
    ) -> Result<(), FeedError> {
        let request = v1::SetLogLevelRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
            level: level.into(),
        };
        self.sessions.clone().set_log_level(self.call(request)).await?;
        Ok(())
    }

    /// Deletes a session; returns when that is durable.
    pub(crate) async fn delete_session(&self, principal: &str, id: &str) -> Result<(), FeedError> {
        let request = v1::DeleteSessionRequest {
            feed: FEED.into(),
            principal: named(principal),
            session_id: id.into(),
        };
        self.sessions.clone().delete_session(self.call(request)).await?;
        Ok(())
    }

    /// Notes that sessions were active.
    pub(crate) async fn touch_sessions(&self, ids: Vec<String>) -> Result<(), FeedError> {
        let request = v1::TouchSessionsRequest {
            feed: FEED.into(),
            principal: itself(),
            session_ids: ids,
        };
        self.sessions.clone().touch_sessions(self.call(request)).await?;
        Ok(())
    }
}

impl Precondition {
    fn write(self) -> Option<v1::Precondition> {
        use v1::precondition::Condition;
        let condition = match self {
            Precondition::None => return None,
            Precondition::Exists => Condition::Exists(true),
            Precondition::Absent => Condition::Exists(false),
            Precondition::Revision(revision) => Condition::Revision(revision),
        };
        Some(v1::Precondition {
            condition: Some(condition),
        })
    }
}

impl Target {
    fn write(&self) -> v1::Target {
        v1::Target {
            database: self.table.database.clone(),
            table: self.table.name.clone(),
            key: self.key.clone(),
        }
    }
}

impl SessionRecord {
    fn read(session: v1::Session) -> SessionRecord {
        let subscriptions = session
            .subscriptions
            .into_iter()
            .map(|subscription| StoredSubscription {
                uri: subscription.uri,
                spelling: subscription.spelling,
                revision: subscription.revision,
            });
        SessionRecord {
            principal: session.principal,
            protocol_version: session.protocol_version,
            subscriptions: subscriptions.collect(),
        }
    }
}

/// Who the gateway is where it asks for itself, and for all of its clients at once: it watches everything and so may do so.
fn itself() -> Option<v1::Principal> {
    Some(v1::Principal {
        name: "gateway".into(),
        role: "super_user".into(),
        ..Default::default()
    })
}

fn named(principal: &str) -> Option<v1::Principal> {
    Some(v1::Principal {
        name: principal.into(),
        ..Default::default()
    })
}
