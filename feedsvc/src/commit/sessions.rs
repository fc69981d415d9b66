//! Runs commands on sessions.

use proto::feed::v1::session_command::Command;
use proto::feed::v1::session_deleted::Cause;
use proto::feed::v1::{
    LogLevelSet, SessionCreated, SessionDeleted, StreamClosed, StreamOpened, Subscribed, Unsubscribed,
};

use super::draft::{Draft, NotApplied};
use super::proposal::{SessionAnswer, SessionProposal};
use crate::entry::{CommitHeader, encode_session_command};
use crate::lease::Leases;
use crate::service::Limits;
use crate::session::{
    DeleteCause, Effect, Facts, SessionCommand, SessionCounts, SessionRecord, SessionState, Subscription,
    decide,
};
use crate::store::{StoreError, Subject};

/// Runs one command.
pub(super) fn run(
    draft: &mut Draft<'_>,
    proposal: &SessionProposal,
    leases: &Leases,
    limits: &Limits,
    now_ms: i64,
) -> Result<SessionAnswer, NotApplied> {
    let now_ms = draft.commit_time_ms(now_ms);
    let facts = read_facts(draft, proposal, leases, limits, now_ms)?;
    let effect = decide(&proposal.id, &proposal.principal, &proposal.command, &facts)?;
    Ok(write(draft, proposal, effect, now_ms)?)
}

fn read_facts(
    draft: &Draft<'_>,
    proposal: &SessionProposal,
    leases: &Leases,
    limits: &Limits,
    now_ms: i64,
) -> Result<Facts, StoreError> {
    let session = draft.transaction.find_session(&proposal.id)?;
    let owner = session
        .as_ref()
        .map(|session| session.owner_instance.as_str())
        .unwrap_or_default();
    let (uri, needs_count) = match &proposal.command {
        SessionCommand::Subscribe {
            uri,
            subscriptions_max,
            ..
        } => (Some(uri), *subscriptions_max > 0),
        SessionCommand::Unsubscribe { uri, .. } => (Some(uri), false),
        SessionCommand::Create { .. }
        | SessionCommand::Open { .. }
        | SessionCommand::Close { .. }
        | SessionCommand::SetLogLevel { .. }
        | SessionCommand::Delete
        | SessionCommand::Expire => (None, false),
    };
    let subscription = match uri {
        Some(uri) => draft.transaction.find_subscription(&proposal.id, uri)?,
        None => None,
    };
    let subscription_count = if needs_count {
        draft.transaction.count_subscriptions(&proposal.id)?
    } else {
        0
    };
    let sessions = match &proposal.command {
        SessionCommand::Create { .. } => draft.transaction.count_sessions(&proposal.principal)?,
        SessionCommand::Open { .. }
        | SessionCommand::Close { .. }
        | SessionCommand::Subscribe { .. }
        | SessionCommand::Unsubscribe { .. }
        | SessionCommand::SetLogLevel { .. }
        | SessionCommand::Delete
        | SessionCommand::Expire => SessionCounts::default(),
    };
    Ok(Facts {
        sessions,
        sessions_max: SessionCounts {
            of_principal: limits.sessions_per_principal,
            in_all: limits.sessions_in_all,
        },
        is_spent: session.is_none() && draft.transaction.is_spent(&proposal.id)?,
        owner_is_live: !owner.is_empty() && leases.is_live(owner),
        active_ms: leases.last_seen_ms(owner),
        session,
        subscription,
        subscription_count,
        now_ms,
    })
}

fn write(
    draft: &mut Draft<'_>,
    proposal: &SessionProposal,
    effect: Effect,
    now_ms: i64,
) -> Result<SessionAnswer, StoreError> {
    let revision = draft.head().next();
    let id = proposal.id.as_str();
    let mut opened = None;
    let command = match effect {
        Effect::Nothing { revision } => {
            return Ok(SessionAnswer {
                revision: revision.unwrap_or(draft.head()),
                has_changed: false,
                session: None,
            });
        }
        Effect::Created(session) => {
            draft.transaction.write_session(&session)?;
            Command::Created(SessionCreated {
                protocol_version: session.protocol_version,
            })
        }
        Effect::Opened(session) => {
            let session = SessionRecord {
                fence: revision,
                ..session
            };
            draft.transaction.write_session(&session)?;
            let instance = session.owner_instance.clone();
            opened = Some(SessionState {
                record: session,
                subscriptions: draft.transaction.read_subscriptions(id)?,
            });
            Command::Opened(StreamOpened { instance })
        }
        Effect::Closed {
            instance,
            fence,
            session,
        } => {
            draft.transaction.write_session(&session)?;
            Command::Closed(StreamClosed {
                instance,
                fence: fence.0,
            })
        }
        Effect::Subscribed { uri, spelling } => {
            let subscription = Subscription {
                uri: uri.clone(),
                spelling: spelling.clone(),
                revision,
            };
            draft.transaction.write_subscription(id, &subscription)?;
            draft.transaction.touch_session(id, now_ms)?;
            Command::Subscribed(Subscribed { uri, spelling })
        }
        Effect::Unsubscribed { uri } => {
            draft.transaction.remove_subscription(id, &uri)?;
            draft.transaction.touch_session(id, now_ms)?;
            Command::Unsubscribed(Unsubscribed { uri })
        }
        Effect::LogLevelSet(session) => {
            draft.transaction.write_session(&session)?;
            Command::LogLevelSet(LogLevelSet {
                level: session.log_level,
            })
        }
        Effect::Deleted(cause) => {
            draft.transaction.remove_session(id, now_ms)?;
            let cause = match cause {
                DeleteCause::Client => Cause::Client,
                DeleteCause::Expired => Cause::Expired,
            };
            Command::Deleted(SessionDeleted { cause: cause.into() })
        }
    };
    let header = CommitHeader {
        commit_time_ms: now_ms,
        commit_end: revision,
        principal: &proposal.principal,
        traceparent: "",
    };
    let encoded = encode_session_command(&header, revision, id, command);
    draft.append(&proposal.principal, Subject::Session { id }, encoded, None, None)?;
    Ok(SessionAnswer {
        revision,
        has_changed: true,
        session: opened,
    })
}
