//! From a request that HTTP has read to what it is answered with: the only place that knows sessions and methods.

mod elsewhere;
mod http_sse;
mod modern;
pub(crate) mod traced;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::{Instrument, debug, error, info};

pub(crate) use crate::feed::Precondition;
use crate::feed::{FeedClient, FeedError, Keyring, StoredRecord, Watch, Written};
use crate::method::{self, Call, Effect, Failure, Records};
pub(crate) use crate::method::{CacheHints, RecordFailure};
use crate::peer::PeerClient;
use crate::protocol::era::{self, Era};
use crate::protocol::error::RpcError;
use crate::protocol::event_id::LastEventId;
use crate::protocol::mcp::{About, InitializeParams, InitializeResult};
use crate::protocol::message::{self, Body, Message, Notification, Refusal, Request, RequestId};
use crate::protocol::trace::TraceId;
use crate::protocol::{answer, era::Version};
use crate::session::{Door, InFlight, Session, SessionId, Sessions, StreamReader, WriteProgress};

/// The name of the anonymous principal, which is everybody as long as no credentials are read.
const ANONYMOUS: &str = "";

/// The code of a 404: the value that client libraries of the field use for it, since JSON-RPC has none.
const SESSION_NOT_FOUND: i64 = -32001;

/// The notification by which a client cancels a request.
const CANCELLED: &str = "notifications/cancelled";

/// From this size on a body is read away from the runtime's threads; below it takes less than 500 µs.
const PARSE_AWAY_BYTES: usize = 32 * 1024;

/// What MCP requests are answered with.
pub(crate) struct Dispatcher {
    sessions: Arc<Sessions>,
    feed: FeedClient,
    keyring: Keyring,
    watch: Arc<Watch>,
    peers: PeerClient,
    offer: Offer,
    /// Who the server is, as JSON.
    server: Arc<str>,
}

/// What clients are offered, by configuration.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// The host and port that URIs of this server name.
    pub(crate) authority: String,
    /// How many subscriptions a session may have.
    pub(crate) max_subscriptions: u32,
    /// How long a GET of a session that is not known here is held while the feed service is away (B-2.8).
    pub(crate) open_wait: Duration,
    /// Whether clients may end their sessions by DELETE.
    pub(crate) allow_client_delete: bool,
    /// How long clients of the modern era may take results for fresh.
    pub(crate) cache_hints: CacheHints,
    /// What the server says about itself.
    pub(crate) about: About,
}

/// What HTTP has read of a request to the MCP endpoint, apart from its body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Headers<'a> {
    /// `Mcp-Session-Id`
    pub(crate) session: Option<&'a [u8]>,
    /// `MCP-Protocol-Version`
    pub(crate) version: Option<&'a [u8]>,
    /// `Last-Event-ID`
    pub(crate) last_event_id: Option<&'a [u8]>,
    /// `Mcp-Method`
    pub(crate) method: Option<&'a [u8]>,
    /// `Mcp-Name`
    pub(crate) name: Option<&'a [u8]>,
    /// `traceparent`
    pub(crate) traceparent: Option<&'a [u8]>,
}

impl Headers<'_> {
    /// Says whether the request is of the modern era whatever its body says, if it has one.
    pub(crate) fn are_modern(&self) -> bool {
        Era::of(self.version, None) == Era::Modern
    }
}

/// What a request is answered with.
pub(crate) enum Outcome {
    /// A JSON-RPC answer.
    Answer(Vec<u8>),
    /// The answer to `initialize`, with the session that it made.
    Initialized {
        /// The new session's id.
        session: SessionId,
        /// The JSON-RPC answer.
        answer: Vec<u8>,
    },
    /// Nothing is to be answered: there were only notifications and responses.
    Accepted,
    /// The session is gone.
    Deleted,
    /// A stream is open.
    Stream(StreamReader),
    /// The request is refused as a whole.
    Refused {
        /// Why.
        cause: RefusalCause,
        /// The JSON-RPC error.
        answer: Vec<u8>,
    },
}

/// Why a request is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// It breaks a rule of the protocol.
    Invalid,
    /// The modern era has no such method.
    UnknownMethod,
    /// There is no such session, or it is not this principal's.
    UnknownSession,
    /// The feed service is away.
    Unavailable,
    /// The principal has as much as it may have.
    PrincipalLimit,
    /// The service has as much as it may have.
    ServiceLimit,
    /// Something is wrong here.
    Internal,
}

impl Outcome {
    /// Returns the JSON-RPC answer, if there is one.
    fn answer(self) -> Option<Vec<u8>> {
        match self {
            Outcome::Answer(answer)
            | Outcome::Initialized { answer, .. }
            | Outcome::Refused { answer, .. } => Some(answer),
            Outcome::Accepted | Outcome::Deleted | Outcome::Stream(_) => None,
        }
    }
}

impl Dispatcher {
    /// Makes a dispatcher.
    pub(crate) fn new(
        sessions: Arc<Sessions>,
        feed: FeedClient,
        watch: Arc<Watch>,
        offer: Offer,
    ) -> Dispatcher {
        Dispatcher {
            sessions,
            keyring: Keyring::new(feed.clone()),
            feed,
            watch,
            peers: PeerClient::default(),
            server: offer.about.server_info().into(),
            offer,
        }
    }

    /// Answers a POST to the MCP endpoint; `progress` is its connection's.
    ///
    /// Dropping the future leaves open whether a write was carried out.
    pub(crate) async fn post(
        &self,
        headers: Headers<'_>,
        body: Bytes,
        progress: &Arc<WriteProgress>,
    ) -> Outcome {
        let parsed = parse(body).await;
        let trace = traced::of_body(headers, &parsed);
        self.answer_post(headers, parsed, progress, trace)
            .instrument(traced::span(trace))
            .await
    }

    async fn answer_post(
        &self,
        headers: Headers<'_>,
        parsed: Result<Body, Refusal>,
        progress: &Arc<WriteProgress>,
        trace: TraceId,
    ) -> Outcome {
        match parsed {
            Err(Refusal { error, id }) => refused(RefusalCause::Invalid, id.as_ref(), &error),
            Ok(Body::Single(message)) if Era::of(headers.version, message.params()) == Era::Modern => {
                self.modern(headers, message, progress, trace).await
            }
            Ok(Body::Batch(_)) if headers.are_modern() => {
                let error = RpcError::invalid_request(format!(
                    "batches are not part of {}: send one message a POST",
                    era::MODERN
                ));
                refused(RefusalCause::Invalid, None, &error)
            }
            Ok(Body::Single(Message::Request(request))) if request.method == "initialize" => {
                self.initialize(headers, &request, trace).await
            }
            Ok(Body::Single(message)) => self.message(headers, message, trace).await,
            Ok(Body::Batch(messages)) => self.batch(headers, messages, trace).await,
        }
    }

    /// Opens the session's GET stream.
    pub(crate) async fn open(&self, headers: Headers<'_>, progress: Arc<WriteProgress>) -> Outcome {
        let trace = traced::of(headers);
        self.open_traced(headers, progress, trace)
            .instrument(traced::span(trace))
            .await
    }

    async fn open_traced(
        &self,
        headers: Headers<'_>,
        progress: Arc<WriteProgress>,
        trace: TraceId,
    ) -> Outcome {
        let found = async {
            let id = session_id(headers)?;
            let wait = self.offer.open_wait;
            let found = self.sessions.find_to_open(ANONYMOUS, id, wait).await;
            found.map_err(NoSession::from)
        };
        let session = match found.await {
            Ok(session) => session,
            Err(refusal) => return refusal.outcome(trace, None),
        };
        if let Err(error) = era::check_header(headers.version) {
            return refused(RefusalCause::Invalid, None, &error);
        }
        let last = LastEventId::read(headers.last_event_id);
        if last == LastEventId::PostStream {
            return self.post_stream(headers, trace).await;
        }
        Outcome::Stream(
            self.sessions
                .open(&session, last, Door::Streamable, progress)
                .await,
        )
    }

    /// Says whether clients may delete their sessions (`session.allow_client_delete`).
    pub(crate) fn allows_delete(&self) -> bool {
        self.offer.allow_client_delete
    }

    /// Deletes the session.
    pub(crate) async fn delete(&self, headers: Headers<'_>) -> Outcome {
        let trace = traced::of(headers);
        self.delete_traced(headers, trace)
            .instrument(traced::span(trace))
            .await
    }

    async fn delete_traced(&self, headers: Headers<'_>, trace: TraceId) -> Outcome {
        let session = match self.find(headers).await {
            Ok(session) => session,
            Err(refusal) => return refusal.outcome(trace, None),
        };
        if let Err(error) = era::check_header(headers.version) {
            return refused(RefusalCause::Invalid, None, &error);
        }
        match self.sessions.delete(&session).await {
            Ok(()) => {
                info!(session.id = %session.id, "deleted a session");
                Outcome::Deleted
            }
            Err(error) => NoSession::from(error).outcome(trace, None),
        }
    }

    async fn initialize(&self, headers: Headers<'_>, request: &Request, trace: TraceId) -> Outcome {
        let refuse = |error: &RpcError| refused(RefusalCause::Invalid, None, error);
        if let Err(error) = era::check_header(headers.version) {
            return refuse(&error);
        }
        let params = match InitializeParams::read(&request.params) {
            Ok(params) => params,
            Err(error) => return refuse(&error),
        };
        let version = Version::negotiate(&params.protocol_version);
        let created = self
            .sessions
            .create(ANONYMOUS, version, params.client_info, params.client_capabilities)
            .await;
        let session = match created {
            Ok(session) => session,
            Err(error) => return NoSession::from(error).outcome(trace, Some(&request.id)),
        };
        match answer::result(&request.id, &InitializeResult::new(version, &self.offer.about)) {
            Ok(answer) => {
                info!(session.id = %session, version = version.as_str(), "made a session");
                Outcome::Initialized { session, answer }
            }
            Err(error) => failed(trace, Some(&request.id), error.into()),
        }
    }

    async fn message(&self, headers: Headers<'_>, message: Message, trace: TraceId) -> Outcome {
        let id = match &message {
            Message::Request(request) => Some(&request.id),
            Message::Notification(_) | Message::Response(_) => None,
        };
        let session = match self.find(headers).await {
            Ok(session) => session,
            Err(refusal) => return refusal.outcome(trace, id),
        };
        if let Err(error) = era::check_header(headers.version) {
            return refused(RefusalCause::Invalid, id, &error);
        }
        match self.serve(&session, message, trace).await {
            Ok(Some(answer)) => Outcome::Answer(answer),
            Ok(None) => Outcome::Accepted,
            Err(outcome) => outcome,
        }
    }

    async fn batch(
        &self,
        headers: Headers<'_>,
        messages: Vec<Result<Message, Refusal>>,
        trace: TraceId,
    ) -> Outcome {
        let session = match self.find(headers).await {
            Ok(session) => session,
            Err(refusal) => return refusal.outcome(trace, None),
        };
        let checked =
            era::check_header(headers.version).and_then(|()| check_batch(session.version, &messages));
        if let Err(error) = checked {
            return refused(RefusalCause::Invalid, None, &error);
        }
        match self.answer_batch(&session, messages, trace).await {
            Ok(answers) if answers.is_empty() => Outcome::Accepted,
            Ok(answers) => Outcome::Answer(answer::batch(&answers)),
            Err(outcome) => outcome,
        }
    }

    async fn answer_batch(
        &self,
        session: &Arc<Session>,
        messages: Vec<Result<Message, Refusal>>,
        trace: TraceId,
    ) -> Result<Vec<Vec<u8>>, Outcome> {
        let mut answers = Vec::new();
        for message in messages {
            match message {
                Ok(message) => match self.serve(session, message, trace).await {
                    Ok(answer) => answers.extend(answer),
                    Err(Outcome::Refused {
                        cause: RefusalCause::Invalid,
                        answer,
                    }) => answers.push(answer),
                    Err(outcome) => return Err(outcome),
                },
                Err(Refusal { error, id }) => answers.push(answer::error(id.as_ref(), &error)),
            }
        }
        Ok(answers)
    }

    /// Serves one message of a session; `None` if it is not to be answered.
    async fn serve(
        &self,
        session: &Arc<Session>,
        message: Message,
        trace: TraceId,
    ) -> Result<Option<Vec<u8>>, Outcome> {
        match message {
            Message::Request(request) => {
                let in_flight = Dispatcher::begin(session, &request)?;
                self.answer(session, &request, in_flight, trace).await
            }
            Message::Notification(notification) => {
                let method = notification.method.as_str();
                let cancelled = match cancelled_id(&notification) {
                    Some(id) => session.cancel(&id) || self.cancel_elsewhere(session, &id).await,
                    None => false,
                };
                debug!(session.id = %session.id, method, cancelled, "got a notification");
                Ok(None)
            }
            Message::Response(response) => {
                let id = response.id.as_ref().map(RequestId::as_raw).unwrap_or_default();
                let error = response.outcome.err();
                info!(session.id = %session.id, request.id = id, ?error, "got a response to no request of ours");
                Ok(None)
            }
        }
    }

    /// Takes the id of a request for as long as its answer takes.
    fn begin(session: &Arc<Session>, request: &Request) -> Result<InFlight, Outcome> {
        session.begin(&request.id).ok_or_else(|| {
            let error = RpcError::invalid_request(format!(
                "a request with id {} is in flight, use another id",
                request.id.as_raw()
            ));
            refused(RefusalCause::Invalid, Some(&request.id), &error)
        })
    }

    /// Carries a request out; `None` if the client cancelled it meanwhile: it gets no answer then (MCP 2025-11-25,
    /// Cancellation, Behavior Requirements).
    async fn answer(
        &self,
        session: &Arc<Session>,
        request: &Request,
        in_flight: InFlight,
        trace: TraceId,
    ) -> Result<Option<Vec<u8>>, Outcome> {
        let call = self.call(&session.principal, &session.id, trace);
        let called = tokio::select! {
            biased;
            called = method::call(&call, request) => called,
            () = in_flight.cancelled() => return Ok(None),
        };
        match called {
            Ok(done) => {
                match done.effect {
                    Effect::None => {}
                    Effect::Settle(revision) => self.sessions.settle(session, revision).await,
                }
                Ok(Some(done.answer))
            }
            Err(Failure::Rpc(error)) => Ok(Some(answer::error(Some(&request.id), &error))),
            // The id could be read, so the legacy era's status is 200 (B-2.8).
            Err(failure @ Failure::Internal) => Ok(failed(trace, Some(&request.id), failure).answer()),
            Err(failure) => Err(failed(trace, Some(&request.id), failure)),
        }
    }

    /// Returns what a method works with.
    fn call<'a>(&'a self, principal: &'a str, session: &'a str, trace: TraceId) -> Call<'a> {
        // In this order: the tables may be newer than the place, which is safe to go on from then.
        let (identity, head) = self.watch.place();
        Call {
            feed: &self.feed,
            keyring: &self.keyring,
            identity,
            head,
            catalog: self.watch.catalog(),
            authority: &self.offer.authority,
            principal,
            session,
            trace,
            max_subscriptions: self.offer.max_subscriptions,
            about: &self.offer.about,
            server: &self.server,
        }
    }

    async fn find(&self, headers: Headers<'_>) -> Result<Arc<Session>, NoSession> {
        Ok(self.sessions.find(ANONYMOUS, session_id(headers)?).await?)
    }

    /// Says whether a table is exported under `path`.
    pub(crate) fn serves_table(&self, path: &str) -> bool {
        self.records().serves(path)
    }

    /// Reads a record; `None` if it is absent.
    pub(crate) async fn read_record(
        &self,
        path: &str,
        key: &str,
    ) -> Result<Option<StoredRecord>, RecordFailure> {
        self.records().read(path, key).await
    }

    /// Creates or replaces a record; returns when that is durable.
    pub(crate) async fn put_record(
        &self,
        path: &str,
        key: &str,
        value: Bytes,
        precondition: Precondition,
    ) -> Result<Written, RecordFailure> {
        self.records().put(path, key, value, precondition).await
    }

    /// Deletes a record; returns when that is durable.
    pub(crate) async fn delete_record(
        &self,
        path: &str,
        key: &str,
        precondition: Precondition,
    ) -> Result<Written, RecordFailure> {
        self.records().delete(path, key, precondition).await
    }

    fn records(&self) -> Records<'_> {
        Records {
            feed: &self.feed,
            catalog: self.watch.catalog(),
            principal: ANONYMOUS,
        }
    }

    /// Says why this instance is not ready; `None` if it is.
    pub(crate) fn not_ready(&self) -> Option<String> {
        if self.sessions.is_draining() {
            return Some("this instance is ending".into());
        }
        let status = self.watch.status();
        if !status.live {
            return Some(format!("waiting for the feed service: {}", status.reason));
        }
        (!status.problem.is_empty()).then(|| format!("the feed service cannot commit: {}", status.problem))
    }

    /// Says whether it is known which tables there are.
    pub(crate) fn knows_tables(&self) -> bool {
        self.watch.is_live()
    }
}

/// Returns which request a notification cancels, if it is one that does.
fn cancelled_id(notification: &Notification) -> Option<RequestId> {
    if notification.method != CANCELLED {
        return None;
    }
    RequestId::read(notification.params.members().ok()?.get("requestId")?)
}

/// Reads a body; a large one away from the runtime's threads, since reading 4 MiB takes 70 ms.
async fn parse(body: Bytes) -> Result<Body, Refusal> {
    if body.len() < PARSE_AWAY_BYTES {
        return message::parse(&body);
    }
    let parsed = tokio::task::spawn_blocking(move || message::parse(&body)).await;
    parsed.unwrap_or_else(|error| {
        error!(%error, "the reading of a body broke off");
        Err(Refusal {
            error: RpcError::internal("internal error"),
            id: None,
        })
    })
}

/// Why a request has no session.
enum NoSession {
    /// It names none.
    NotNamed,
    /// The feed service said so.
    Feed(FeedError),
}

impl From<FeedError> for NoSession {
    fn from(error: FeedError) -> NoSession {
        NoSession::Feed(error)
    }
}

impl NoSession {
    fn outcome(self, trace: TraceId, id: Option<&RequestId>) -> Outcome {
        match self {
            NoSession::NotNamed => {
                let error =
                    RpcError::invalid_request("the Mcp-Session-Id header is missing: send initialize first");
                refused(RefusalCause::Invalid, id, &error)
            }
            NoSession::Feed(error) => failed(trace, id, error.into()),
        }
    }
}

fn session_id<'a>(headers: Headers<'a>) -> Result<&'a str, NoSession> {
    let id = headers.session.ok_or(NoSession::NotNamed)?;
    // An id that is no text was never given to anybody.
    std::str::from_utf8(id).map_err(|_| NoSession::Feed(FeedError::UnknownSession))
}

/// Checks that a batch may be here at all (MCP 2025-03-26, Overview, Batching; gone in 2025-06-18).
fn check_batch(version: Version, messages: &[Result<Message, Refusal>]) -> Result<(), RpcError> {
    if !version.features().batches {
        return Err(RpcError::invalid_request(format!(
            "batches are not part of {version}: send one message a POST"
        )));
    }
    let initializes = |message: &Result<Message, Refusal>| matches!(message, Ok(Message::Request(request)) if request.method == "initialize");
    if messages.iter().any(initializes) {
        return Err(RpcError::invalid_request(
            "initialize must not be part of a batch",
        ));
    }
    Ok(())
}

fn refused(cause: RefusalCause, id: Option<&RequestId>, error: &RpcError) -> Outcome {
    Outcome::Refused {
        cause,
        answer: answer::error(id, error),
    }
}

fn failed(trace: TraceId, id: Option<&RequestId>, failure: Failure) -> Outcome {
    match failure {
        Failure::Rpc(error) => refused(RefusalCause::Invalid, id, &error),
        Failure::UnknownSession => {
            let error = RpcError::new(
                SESSION_NOT_FOUND,
                "session not found: send initialize for a new one",
            );
            refused(RefusalCause::UnknownSession, id, &error)
        }
        Failure::Unavailable => refused(
            RefusalCause::Unavailable,
            id,
            &RpcError::internal("feed service unavailable"),
        ),
        Failure::TooManySessions => refused(
            RefusalCause::PrincipalLimit,
            id,
            &RpcError::internal(
                "too many sessions: delete one that is not used any more, or wait until one expires",
            ),
        ),
        Failure::TooManySessionsInAll => refused(
            RefusalCause::ServiceLimit,
            id,
            &RpcError::internal("too many sessions in all: try again later"),
        ),
        Failure::Internal => {
            error!(trace.id = %trace, "a request failed for a reason that is logged above");
            refused(
                RefusalCause::Internal,
                id,
                &RpcError::internal_of(trace, "internal error"),
            )
        }
    }
}
