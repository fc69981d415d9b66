//! The HTTP+SSE transport of 2024-11-05: the same sessions and methods, with every answer on the session's stream.
//!
//! A POST may arrive at any instance, but what it gives goes out on a stream that one instance has: there it is handed to (see
//! `peer`), and answered with 202 as soon as that one took it. The calls run where the stream is, so ids in flight and
//! cancellations are looked at in one place.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, debug, info};

use super::{
    ANONYMOUS, Dispatcher, Headers, NoSession, Outcome, RefusalCause, check_batch, failed, parse, refused,
    traced,
};
use crate::feed::FeedError;
use crate::method::Failure;
use crate::peer::{Cancelled, Handed, Inbox, PeerError, RefusedFor, Taken};
use crate::protocol::answer;
use crate::protocol::era::{self, Version};
use crate::protocol::error::RpcError;
use crate::protocol::event_id::LastEventId;
use crate::protocol::mcp::{About, InitializeParams, InitializeResult};
use crate::protocol::message::{Body, Message, Refusal, Request, RequestId};
use crate::protocol::trace::TraceId;
use crate::session::{Door, ReplyStream, Session, WriteProgress};

/// How long a POST waits for the session's stream: a client that reconnects may POST before its stream is open.
const STREAM_WAIT_MAX: Duration = Duration::from_secs(1);

/// How often it looks.
const STREAM_WAIT_STEP: Duration = Duration::from_millis(25);

/// The one method that has a meaning of its own on this transport: the session is there before it.
const INITIALIZE: &str = "initialize";

impl Dispatcher {
    /// Opens the stream of an HTTP+SSE client: of the session that it names, or of a new one.
    pub(crate) async fn open_http_sse(&self, headers: Headers<'_>, progress: Arc<WriteProgress>) -> Outcome {
        let trace = traced::of(headers);
        self.open_http_sse_traced(headers, progress, trace)
            .instrument(traced::span(trace))
            .await
    }

    async fn open_http_sse_traced(
        &self,
        headers: Headers<'_>,
        progress: Arc<WriteProgress>,
        trace: TraceId,
    ) -> Outcome {
        if let Err(error) = era::check_header(headers.version) {
            return refused(RefusalCause::Invalid, None, &error);
        }
        let last = LastEventId::read(headers.last_event_id);
        if last == LastEventId::PostStream {
            let error = RpcError::invalid_request("no POST stream with this event id is open here");
            return refused(RefusalCause::Invalid, None, &error);
        }
        let wait = self.offer.open_wait;
        let found = match headers.session {
            Some(id) => match std::str::from_utf8(id) {
                Ok(id) => self.sessions.find_to_open(ANONYMOUS, id, wait).await,
                Err(_) => Err(FeedError::UnknownSession),
            },
            None => {
                let created = self
                    .sessions
                    .create_to_open(ANONYMOUS, Version::HTTP_SSE, wait)
                    .await;
                created.inspect(|session| info!(session.id = %session.id, "made a session for HTTP+SSE"))
            }
        };
        match found {
            Ok(session) => Outcome::Stream(self.sessions.open(&session, last, Door::HttpSse, progress).await),
            Err(error) => NoSession::from(error).outcome(trace, None),
        }
    }

    /// Takes a POST of an HTTP+SSE client; what it gives goes out on the session's stream.
    pub(crate) async fn post_http_sse(self: &Arc<Self>, headers: Headers<'_>, body: Bytes) -> Outcome {
        let trace = traced::of(headers);
        self.post_http_sse_traced(headers, body, trace)
            .instrument(traced::span(trace))
            .await
    }

    async fn post_http_sse_traced(
        self: &Arc<Self>,
        headers: Headers<'_>,
        body: Bytes,
        trace: TraceId,
    ) -> Outcome {
        let session = match headers.session {
            Some(_) => match self.find(headers).await {
                Ok(session) => session,
                Err(refusal) => return refusal.outcome(trace, id_of(body).await.as_ref()),
            },
            None => {
                let error = RpcError::invalid_request(
                    "the session is missing: POST to the uri of the endpoint event",
                );
                return refused(RefusalCause::Invalid, id_of(body).await.as_ref(), &error);
            }
        };
        if let Err(error) = era::check_header(headers.version) {
            return refused(RefusalCause::Invalid, id_of(body).await.as_ref(), &error);
        }
        let deadline = Instant::now() + STREAM_WAIT_MAX;
        loop {
            if let Some(stream) = self.sessions.reply_stream(&session) {
                return self.take_message(&session, &stream, body, trace).await;
            }
            match self.hand_on(&session, &body).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) if Instant::now() < deadline => sleep(STREAM_WAIT_STEP).await,
                Ok(None) => {
                    let error = RpcError::internal(
                        "no stream of this session is open: GET /sse with the session, and call again",
                    );
                    return refused(RefusalCause::Unavailable, id_of(body).await.as_ref(), &error);
                }
                Err(error) => return NoSession::from(error).outcome(trace, id_of(body).await.as_ref()),
            }
        }
    }

    /// Hands a message to the instance that has the session's stream; `None` if none has it (yet).
    async fn hand_on(&self, session: &Session, body: &Bytes) -> Result<Option<Outcome>, FeedError> {
        let Some(owner) = self.feed.find_owner(&session.principal, &session.id).await? else {
            return Ok(None);
        };
        if owner.instance == self.feed.instance() {
            return Ok(None);
        }
        let handed = Handed {
            principal: session.principal.to_string(),
            session: session.id.to_string(),
            body: body.clone(),
        };
        match self.peers.hand(&owner.instance, &owner.address, handed).await {
            Ok(Taken::Accepted) => Ok(Some(Outcome::Accepted)),
            Ok(Taken::Refused { cause, answer }) => Ok(Some(Outcome::Refused {
                cause: read_cause(cause),
                answer,
            })),
            Err(PeerError::NotThere) => Ok(None),
            Err(PeerError::Gone) => {
                debug!(session.id = %session.id, owner.instance, owner.address, "the instance that has the stream is gone");
                let error = RpcError::internal("the result of this call was lost, call again");
                let id = id_of(body.clone()).await;
                Ok(Some(refused(RefusalCause::Unavailable, id.as_ref(), &error)))
            }
        }
    }

    /// Takes a message whose answer goes out on `stream`; returns before it is carried out.
    async fn take_message(
        self: &Arc<Self>,
        session: &Arc<Session>,
        stream: &ReplyStream,
        body: Bytes,
        trace: TraceId,
    ) -> Outcome {
        let messages = match parse(body).await {
            Err(Refusal { error, id }) => return refused(RefusalCause::Invalid, id.as_ref(), &error),
            Ok(Body::Single(message)) => return self.take_single(session, stream, message, trace).await,
            Ok(Body::Batch(messages)) => messages,
        };
        if let Err(error) = check_batch(stream.version(), &messages) {
            return refused(RefusalCause::Invalid, None, &error);
        }
        let Some(reply) = stream.begin() else {
            return busy(None);
        };
        let (dispatcher, session) = (Arc::clone(self), Arc::clone(session));
        let answering = async move {
            let line = match dispatcher.answer_batch(&session, messages, trace).await {
                Ok(answers) if answers.is_empty() => None,
                Ok(answers) => Some(answer::batch(&answers)),
                Err(outcome) => outcome.answer(),
            };
            reply.finish(line);
        };
        self.sessions.spawn(answering.instrument(traced::span(trace)));
        Outcome::Accepted
    }

    async fn take_single(
        self: &Arc<Self>,
        session: &Arc<Session>,
        stream: &ReplyStream,
        message: Message,
        trace: TraceId,
    ) -> Outcome {
        let trace = traced::of_message(&message).unwrap_or(trace);
        let request = match message {
            Message::Request(request) => request,
            Message::Notification(_) | Message::Response(_) => {
                return match self.serve(session, message, trace).await {
                    Ok(_) => Outcome::Accepted,
                    Err(outcome) => outcome,
                };
            }
        };
        let in_flight = match Dispatcher::begin(session, &request) {
            Ok(in_flight) => in_flight,
            Err(outcome) => return outcome,
        };
        let Some(reply) = stream.begin() else {
            return busy(Some(&request.id));
        };
        if request.method == INITIALIZE {
            reply.finish(Some(initialize(stream, &request, &self.offer.about, trace)));
            return Outcome::Accepted;
        }
        let (dispatcher, session) = (Arc::clone(self), Arc::clone(session));
        let answering = async move {
            let answered = dispatcher.answer(&session, &request, in_flight, trace).await;
            reply.finish(answered.unwrap_or_else(Outcome::answer));
        };
        self.sessions.spawn(answering.instrument(traced::span(trace)));
        Outcome::Accepted
    }
}

impl Inbox for Dispatcher {
    async fn take(self: Arc<Self>, handed: Handed) -> Option<Taken> {
        // One that carries no trace itself gets one here, where its answer is made.
        let trace = traced::of(Headers::default());
        let session = match self.sessions.find(&handed.principal, &handed.session).await {
            Ok(session) => session,
            Err(error) => return Some(taken(failed(trace, None, Failure::from(error)))),
        };
        let stream = self.sessions.reply_stream(&session)?;
        let took = self.take_message(&session, &stream, handed.body, trace);
        Some(taken(took.instrument(traced::span(trace)).await))
    }

    fn cancel(&self, cancelled: &Cancelled) -> bool {
        // Who answers a request of a session knows the session.
        let session = self.sessions.find_known(&cancelled.principal, &cancelled.session);
        session.is_some_and(|session| session.cancel(&cancelled.request))
    }
}

/// Answers an `initialize`: what was negotiated counts for this stream.
fn initialize(stream: &ReplyStream, request: &Request, about: &About, trace: TraceId) -> Vec<u8> {
    let params = match InitializeParams::read(&request.params) {
        Ok(params) => params,
        Err(error) => return answer::error(Some(&request.id), &error),
    };
    let version = Version::negotiate(&params.protocol_version);
    stream.negotiate(version);
    match answer::result(&request.id, &InitializeResult::new(version, about)) {
        Ok(answer) => answer,
        Err(error) => failed(trace, Some(&request.id), error.into())
            .answer()
            .unwrap_or_default(),
    }
}

/// Refuses a message of a client that has too many calls running, or does not read their answers.
fn busy(id: Option<&RequestId>) -> Outcome {
    let error = RpcError::internal(
        "too many calls of this session are running, or their answers are not read: wait for them",
    );
    refused(RefusalCause::Unavailable, id, &error)
}

/// Returns the id under which a refusal is answered, where the message has one.
async fn id_of(body: Bytes) -> Option<RequestId> {
    match parse(body).await {
        Ok(Body::Single(Message::Request(request))) => Some(request.id),
        Ok(Body::Single(Message::Notification(_) | Message::Response(_)) | Body::Batch(_)) => None,
        Err(refusal) => refusal.id,
    }
}

fn taken(outcome: Outcome) -> Taken {
    match outcome {
        Outcome::Refused { cause, answer } => Taken::Refused {
            cause: write_cause(cause),
            answer,
        },
        // Nothing else comes of taking a message.
        Outcome::Accepted
        | Outcome::Answer(_)
        | Outcome::Initialized { .. }
        | Outcome::Deleted
        | Outcome::Stream(_) => Taken::Accepted,
    }
}

fn write_cause(cause: RefusalCause) -> RefusedFor {
    match cause {
        // The second is of the modern era, which has no session to send to.
        RefusalCause::Invalid | RefusalCause::UnknownMethod => RefusedFor::Invalid,
        RefusalCause::UnknownSession => RefusedFor::UnknownSession,
        // The limits are those of making a session, which a message of one does not.
        RefusalCause::Unavailable | RefusalCause::PrincipalLimit | RefusalCause::ServiceLimit => {
            RefusedFor::Unavailable
        }
        RefusalCause::Internal => RefusedFor::Internal,
    }
}

fn read_cause(cause: RefusedFor) -> RefusalCause {
    match cause {
        RefusedFor::Invalid => RefusalCause::Invalid,
        RefusedFor::UnknownSession => RefusalCause::UnknownSession,
        RefusedFor::Unavailable => RefusalCause::Unavailable,
        RefusedFor::Internal => RefusalCause::Internal,
    }
}
