//! The calls of `feed.v1.Sessions`.

use std::sync::Arc;

use proto::feed::v1::server::sessions_server::Sessions as SessionsService;
use proto::feed::v1::{
    CloseStreamRequest, CloseStreamResponse, CreateSessionRequest, CreateSessionResponse,
    DeleteSessionRequest, DeleteSessionResponse, GetSessionRequest, GetSessionResponse, Instance,
    ListInstancesRequest, ListInstancesResponse, OpenStreamRequest, OpenStreamResponse, Principal, Session,
    SetLogLevelRequest, SetLogLevelResponse, SubscribeRequest, SubscribeResponse,
    Subscription as SubscriptionMessage, TouchSessionsRequest, TouchSessionsResponse, UnsubscribeRequest,
    UnsubscribeResponse,
};
use tonic::{Request, Response, Status};

use super::request::{Caller, admit, invalid};
use super::status::status;
use crate::access::{Action, Object, Operation};
use crate::catalog::json::Json;
use crate::clock::duration_ms;
use crate::commit::{SessionAnswer, SessionProposal, Touch};
use crate::feed::Feed;
use crate::lease::Leases;
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::session::{FenceNeed, LOG_LEVELS, SessionCommand, SessionState, StreamNeed};

/// Lengths of a session's id, in visible ASCII characters (session.proto).
const ID_LENGTHS: std::ops::RangeInclusive<usize> = 16..=128;
/// The longest URI (session.proto).
const URI_LIMIT_BYTES: usize = 8_192;
/// The longest name of a protocol version or an instance.
const NAME_LIMIT_BYTES: usize = 200;
/// The largest client info and capabilities.
const CLIENT_LIMIT_BYTES: usize = 64 * 1024;
/// The most sessions that one touch names.
const TOUCHED_MAX: usize = 100_000;

/// The service behind the calls.
pub(super) struct SessionsApi {
    feed: Arc<Feed>,
}

impl SessionsApi {
    pub(super) fn new(feed: Arc<Feed>) -> SessionsApi {
        SessionsApi { feed }
    }

    async fn create_session(&self, request: CreateSessionRequest) -> Result<CreateSessionResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        check_id(&request.session_id)?;
        check_length("protocol_version", &request.protocol_version, NAME_LIMIT_BYTES)?;
        check_object("client_info", &request.client_info)?;
        check_object("client_capabilities", &request.client_capabilities)?;
        let idle_timeout_ms = match request.idle_timeout_ms {
            0 => duration_ms(self.feed.limits.session_idle_timeout),
            given => i64::try_from(given).unwrap_or(i64::MAX),
        };
        let command = SessionCommand::Create {
            protocol_version: request.protocol_version,
            client_info: request.client_info,
            client_capabilities: request.client_capabilities,
            idle_timeout_ms,
        };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(CreateSessionResponse {
            revision: answer.revision.0,
        })
    }

    async fn get_session(&self, request: GetSessionRequest) -> Result<GetSessionResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        let found = self
            .feed
            .reads
            .run(move |reader| reader.find_session(&request.session_id))
            .await?;
        let session = found.value.ok_or(Refusal::UnknownSession)?;
        if session.record.principal != principal {
            return Err(Refusal::ForeignSession);
        }
        let owner = session.record.owner_instance.as_str();
        let stream_live = !owner.is_empty() && self.feed.leases.is_live(owner);
        Ok(GetSessionResponse {
            stream_live,
            session: Some(session_message(session, &self.feed.leases)),
            revision: found.revision.0,
        })
    }

    async fn open_stream(&self, request: OpenStreamRequest) -> Result<OpenStreamResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        check_length("instance", &request.instance, NAME_LIMIT_BYTES)?;
        if request.address.len() > NAME_LIMIT_BYTES {
            return Err(Refusal::TooLarge {
                what: "address",
                limit: NAME_LIMIT_BYTES,
            });
        }
        let command = SessionCommand::Open {
            instance: request.instance,
            address: request.address,
        };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(OpenStreamResponse {
            fence: answer.revision.0,
            session: answer
                .session
                .map(|session| session_message(session, &self.feed.leases)),
            oldest: self.feed.oldest().0,
        })
    }

    async fn close_stream(&self, request: CloseStreamRequest) -> Result<CloseStreamResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        let command = SessionCommand::Close {
            fence: Revision(request.fence),
        };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(CloseStreamResponse {
            revision: answer.revision.0,
        })
    }

    async fn subscribe(&self, request: SubscribeRequest) -> Result<SubscribeResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        check_length("uri", &request.uri, URI_LIMIT_BYTES)?;
        check_length("spelling", &request.spelling, URI_LIMIT_BYTES)?;
        let command = SessionCommand::Subscribe {
            uri: request.uri,
            spelling: request.spelling,
            stream: if request.require_stream {
                StreamNeed::Required
            } else {
                StreamNeed::NotRequired
            },
            subscriptions_max: request.max_subscriptions,
            fence: fence_need(request.fence),
        };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(SubscribeResponse {
            revision: answer.revision.0,
            existed: !answer.has_changed,
        })
    }

    async fn unsubscribe(&self, request: UnsubscribeRequest) -> Result<UnsubscribeResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        check_length("uri", &request.uri, URI_LIMIT_BYTES)?;
        let command = SessionCommand::Unsubscribe {
            uri: request.uri,
            fence: fence_need(request.fence),
        };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(UnsubscribeResponse {
            revision: answer.revision.0,
            existed: answer.has_changed,
        })
    }

    async fn set_log_level(&self, request: SetLogLevelRequest) -> Result<SetLogLevelResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        if !LOG_LEVELS.contains(&request.level.as_str()) {
            return Err(invalid(
                "level",
                "it is none of debug, info, notice, warning, error, critical, alert, emergency",
            ));
        }
        let command = SessionCommand::SetLogLevel { level: request.level };
        let answer = self.command(principal, request.session_id, command).await?;
        Ok(SetLogLevelResponse {
            revision: answer.revision.0,
        })
    }

    async fn delete_session(&self, request: DeleteSessionRequest) -> Result<DeleteSessionResponse, Refusal> {
        let principal = self.admit(&request.feed, request.principal)?.principal.name;
        let answer = self
            .command(principal, request.session_id, SessionCommand::Delete)
            .await?;
        Ok(DeleteSessionResponse {
            revision: answer.revision.0,
        })
    }

    async fn touch_sessions(&self, request: TouchSessionsRequest) -> Result<TouchSessionsResponse, Refusal> {
        let caller = self.admit(&request.feed, request.principal)?;
        if request.session_ids.len() > TOUCHED_MAX {
            return Err(invalid("session_ids", "there are more than 100000"));
        }
        if !request.session_ids.is_empty() {
            let may_touch_all = caller
                .check(Action::Call, Object::Operation(Operation::TouchSessions))
                .is_ok();
            let touch = Touch {
                ids: request.session_ids,
                only_of: (!may_touch_all).then_some(caller.principal.name),
            };
            self.feed.pipeline.touch_sessions(touch).await?;
        }
        Ok(TouchSessionsResponse {})
    }

    fn list_instances(&self, request: ListInstancesRequest) -> Result<ListInstancesResponse, Refusal> {
        admit(
            &self.feed,
            &request.feed,
            request.principal,
            Action::Call,
            Object::Operation(Operation::Watch),
        )?;
        let watching = self.feed.leases.watching().into_iter();
        Ok(ListInstancesResponse {
            instances: watching
                .map(|(name, address)| Instance { name, address })
                .collect(),
        })
    }

    /// Everybody may have sessions; whose one is, is checked where it is read.
    fn admit(&self, feed: &str, principal: Option<Principal>) -> Result<Caller, Refusal> {
        admit(&self.feed, feed, principal, Action::Call, Object::Own)
    }

    async fn command(
        &self,
        principal: String,
        id: String,
        command: SessionCommand,
    ) -> Result<SessionAnswer, Refusal> {
        self.feed
            .pipeline
            .command_session(SessionProposal {
                principal,
                id,
                command,
            })
            .await
    }
}

/// 0 is no open's revision and means that the fence is not checked.
fn fence_need(fence: u64) -> FenceNeed {
    match fence {
        0 => FenceNeed::NotChecked,
        fence => FenceNeed::Exactly(Revision(fence)),
    }
}

fn check_id(id: &str) -> Result<(), Refusal> {
    let is_id = ID_LENGTHS.contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_id {
        Ok(())
    } else {
        Err(invalid(
            "session_id",
            "it has not 16 to 128 visible ASCII characters",
        ))
    }
}

/// Checks that a text is there and not too long.
fn check_length(field: &'static str, text: &str, limit: usize) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(invalid(field, "it is empty"));
    }
    if text.len() > limit {
        return Err(Refusal::TooLarge { what: field, limit });
    }
    Ok(())
}

/// Checks that a text is a JSON object, or empty.
fn check_object(field: &'static str, text: &str) -> Result<(), Refusal> {
    if text.len() > CLIENT_LIMIT_BYTES {
        return Err(Refusal::TooLarge {
            what: field,
            limit: CLIENT_LIMIT_BYTES,
        });
    }
    if text.is_empty() || matches!(Json::parse(text.as_bytes()), Ok(Json::Object(_))) {
        return Ok(());
    }
    Err(invalid(field, "it is no JSON object"))
}

fn session_message(session: SessionState, leases: &Leases) -> Session {
    let SessionState {
        record,
        subscriptions,
    } = session;
    let subscriptions = subscriptions.into_iter().map(|subscription| SubscriptionMessage {
        uri: subscription.uri,
        spelling: subscription.spelling,
        revision: subscription.revision.0,
    });
    // An open stream is activity, and so is the start of the service for what was there before.
    let active_ms = record
        .last_active_ms
        .max(leases.last_seen_ms(&record.owner_instance));
    Session {
        id: record.id,
        principal: record.principal,
        protocol_version: record.protocol_version,
        client_info: record.client_info,
        client_capabilities: record.client_capabilities,
        created_ms: record.created_ms,
        last_active_ms: record.last_active_ms,
        owner_instance: record.owner_instance,
        fence: record.fence.0,
        subscriptions: subscriptions.collect(),
        log_level: record.log_level,
        expires_ms: active_ms.saturating_add(record.idle_timeout_ms),
        owner_address: record.owner_address,
    }
}

#[tonic::async_trait]
impl SessionsService for SessionsApi {
    async fn create_session(
        &self,
        request: Request<CreateSessionRequest>,
    ) -> Result<Response<CreateSessionResponse>, Status> {
        SessionsApi::create_session(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn get_session(
        &self,
        request: Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionResponse>, Status> {
        SessionsApi::get_session(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn open_stream(
        &self,
        request: Request<OpenStreamRequest>,
    ) -> Result<Response<OpenStreamResponse>, Status> {
        SessionsApi::open_stream(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn close_stream(
        &self,
        request: Request<CloseStreamRequest>,
    ) -> Result<Response<CloseStreamResponse>, Status> {
        SessionsApi::close_stream(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn subscribe(
        &self,
        request: Request<SubscribeRequest>,
    ) -> Result<Response<SubscribeResponse>, Status> {
        SessionsApi::subscribe(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn unsubscribe(
        &self,
        request: Request<UnsubscribeRequest>,
    ) -> Result<Response<UnsubscribeResponse>, Status> {
        SessionsApi::unsubscribe(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn set_log_level(
        &self,
        request: Request<SetLogLevelRequest>,
    ) -> Result<Response<SetLogLevelResponse>, Status> {
        SessionsApi::set_log_level(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn delete_session(
        &self,
        request: Request<DeleteSessionRequest>,
    ) -> Result<Response<DeleteSessionResponse>, Status> {
        SessionsApi::delete_session(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn touch_sessions(
        &self,
        request: Request<TouchSessionsRequest>,
    ) -> Result<Response<TouchSessionsResponse>, Status> {
        SessionsApi::touch_sessions(self, request.into_inner())
            .await
            .map(Response::new)
            .map_err(status)
    }

    async fn list_instances(
        &self,
        request: Request<ListInstancesRequest>,
    ) -> Result<Response<ListInstancesResponse>, Status> {
        SessionsApi::list_instances(self, request.into_inner())
            .map(Response::new)
            .map_err(status)
    }
}
