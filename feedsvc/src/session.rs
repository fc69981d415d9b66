//! Durable sessions: what a command does to one, decided without I/O.
//!
//! The record is the wanted state. Whoever runs a command reads the facts, asks [`decide`], writes the effect together
//! with its entry, and so gives the effect its revision.

use crate::refusal::Refusal;
use crate::revision::Revision;

/// A session's durable record, without its subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    pub(crate) id: String,
    /// Empty: anonymous.
    pub(crate) principal: String,
    pub(crate) protocol_version: String,
    /// A JSON object, or empty.
    pub(crate) client_info: String,
    /// A JSON object, or empty.
    pub(crate) client_capabilities: String,
    pub(crate) created_ms: i64,
    pub(crate) last_active_ms: i64,
    pub(crate) idle_timeout_ms: i64,
    /// The instance that holds the stream; empty: none.
    pub(crate) owner_instance: String,
    /// The revision of the owner's open; 0: none.
    pub(crate) fence: Revision,
}

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// The canonical URI.
    pub(crate) uri: String,
    /// As the client wrote it first.
    pub(crate) spelling: String,
    /// Changes with a higher revision notify.
    pub(crate) revision: Revision,
}

/// A session with its subscriptions at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionState {
    pub(crate) record: SessionRecord,
    /// Sorted by URI.
    pub(crate) subscriptions: Vec<Subscription>,
}

/// What a session is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionCommand {
    Create {
        protocol_version: String,
        client_info: String,
        client_capabilities: String,
        idle_timeout_ms: i64,
    },
    Open {
        instance: String,
    },
    Close {
        fence: Revision,
    },
    Subscribe {
        uri: String,
        spelling: String,
        stream: StreamNeed,
        /// 0: no limit.
        subscriptions_max: u32,
    },
    Unsubscribe {
        uri: String,
    },
    Delete,
    /// Delete it if it has been idle for too long.
    Expire,
}

/// Whether a subscribe needs a live stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamNeed {
    Required,
    NotRequired,
}

/// What is known about a session when a command on it is decided.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) session: Option<SessionRecord>,
    /// A session of this id was there once and is gone.
    pub(crate) is_spent: bool,
    /// The subscription that the command names.
    pub(crate) subscription: Option<Subscription>,
    pub(crate) subscription_count: u64,
    /// The owner's watch is open, or broke a moment ago.
    pub(crate) owner_is_live: bool,
    /// The latest moment at which the service knows the session to have been active, apart from its record.
    pub(crate) active_ms: i64,
    /// The store's clock.
    pub(crate) now_ms: i64,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing and writes no entry.
    Nothing {
        /// Of the subscription that is there already.
        revision: Option<Revision>,
    },
    Created(SessionRecord),
    /// The fence becomes the entry's revision.
    Opened(SessionRecord),
    Closed {
        instance: String,
        fence: Revision,
        session: SessionRecord,
    },
    /// The subscription's revision becomes the entry's.
    Subscribed {
        uri: String,
        spelling: String,
    },
    Unsubscribed {
        uri: String,
    },
    Deleted(DeleteCause),
}

/// Why a session is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteCause {
    Client,
    Expired,
}

/// Decides what a command of a principal does.
///
/// # Errors
/// The refusal that the caller is told; nothing is changed then.
pub(crate) fn decide(
    id: &str,
    principal: &str,
    command: &SessionCommand,
    facts: &Facts,
) -> Result<Effect, Refusal> {
    if let SessionCommand::Create {
        protocol_version,
        client_info,
        client_capabilities,
        idle_timeout_ms,
    } = command
    {
        if facts.session.is_some() || facts.is_spent {
            return Err(Refusal::InvalidArgument {
                field: "session_id",
                problem: "it was used before",
            });
        }
        return Ok(Effect::Created(SessionRecord {
            id: id.to_owned(),
            principal: principal.to_owned(),
            protocol_version: protocol_version.clone(),
            client_info: client_info.clone(),
            client_capabilities: client_capabilities.clone(),
            created_ms: facts.now_ms,
            last_active_ms: facts.now_ms,
            idle_timeout_ms: *idle_timeout_ms,
            owner_instance: String::new(),
            fence: Revision::ZERO,
        }));
    }

    let session = facts.session.as_ref().ok_or(Refusal::UnknownSession)?;
    let is_own = session.principal == principal || *command == SessionCommand::Expire;
    if !is_own {
        return Err(Refusal::ForeignSession);
    }
    let has_owner = !session.owner_instance.is_empty();
    match command {
        // Handled above; deciding it again would say the same as for an id that is used.
        SessionCommand::Create { .. } => Ok(Effect::Nothing { revision: None }),
        SessionCommand::Open { instance } => Ok(Effect::Opened(SessionRecord {
            owner_instance: instance.clone(),
            last_active_ms: session.last_active_ms.max(facts.now_ms),
            ..session.clone()
        })),
        SessionCommand::Close { fence } => {
            if !has_owner || session.fence != *fence {
                return Err(Refusal::Fenced);
            }
            Ok(Effect::Closed {
                instance: session.owner_instance.clone(),
                fence: *fence,
                session: SessionRecord {
                    owner_instance: String::new(),
                    fence: Revision::ZERO,
                    last_active_ms: session.last_active_ms.max(facts.now_ms),
                    ..session.clone()
                },
            })
        }
        SessionCommand::Subscribe {
            uri,
            spelling,
            stream,
            subscriptions_max,
        } => {
            if *stream == StreamNeed::Required && !(has_owner && facts.owner_is_live) {
                return Err(Refusal::NoStream);
            }
            if let Some(subscription) = &facts.subscription {
                return Ok(Effect::Nothing {
                    revision: Some(subscription.revision),
                });
            }
            if *subscriptions_max > 0 && facts.subscription_count >= u64::from(*subscriptions_max) {
                return Err(Refusal::TooManySubscriptions {
                    limit: *subscriptions_max,
                });
            }
            Ok(Effect::Subscribed {
                uri: uri.clone(),
                spelling: spelling.clone(),
            })
        }
        SessionCommand::Unsubscribe { uri } => match facts.subscription {
            Some(_) => Ok(Effect::Unsubscribed { uri: uri.clone() }),
            None => Ok(Effect::Nothing { revision: None }),
        },
        SessionCommand::Delete => Ok(Effect::Deleted(DeleteCause::Client)),
        SessionCommand::Expire => {
            let active_ms = session.last_active_ms.max(facts.active_ms);
            let is_idle = active_ms.saturating_add(session.idle_timeout_ms) < facts.now_ms;
            if is_idle && !(has_owner && facts.owner_is_live) {
                return Ok(Effect::Deleted(DeleteCause::Expired));
            }
            Ok(Effect::Nothing { revision: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DeleteCause, Effect, Facts, SessionCommand, SessionRecord, StreamNeed, Subscription, decide,
    };
    use crate::revision::Revision;

    fn session() -> SessionRecord {
        SessionRecord {
            id: "s".into(),
            principal: "alice".into(),
            protocol_version: "2025-11-25".into(),
            client_info: "{}".into(),
            client_capabilities: "{}".into(),
            created_ms: 0,
            last_active_ms: 100,
            idle_timeout_ms: 50,
            owner_instance: "a".into(),
            fence: Revision(7),
        }
    }

    fn facts() -> Facts {
        Facts {
            session: Some(session()),
            is_spent: false,
            subscription: None,
            subscription_count: 2,
            owner_is_live: true,
            active_ms: 0,
            now_ms: 150,
        }
    }

    fn subscribe(stream: StreamNeed, subscriptions_max: u32) -> SessionCommand {
        SessionCommand::Subscribe {
            uri: "u".into(),
            spelling: "U".into(),
            stream,
            subscriptions_max,
        }
    }

    /// The name of the effect, or the refusal's text.
    fn check(principal: &str, command: &SessionCommand, facts: &Facts, expected: &str) {
        let outcome = match decide("s", principal, command, facts) {
            Ok(Effect::Nothing { revision: None }) => "nothing".to_owned(),
            Ok(Effect::Nothing {
                revision: Some(revision),
            }) => format!("nothing at {revision}"),
            Ok(Effect::Created(_)) => "created".to_owned(),
            Ok(Effect::Opened(session)) => format!("opened by {}", session.owner_instance),
            Ok(Effect::Closed {
                instance, session, ..
            }) => format!("closed by {instance}, now {:?}", session.owner_instance),
            Ok(Effect::Subscribed { .. }) => "subscribed".to_owned(),
            Ok(Effect::Unsubscribed { .. }) => "unsubscribed".to_owned(),
            Ok(Effect::Deleted(DeleteCause::Client)) => "deleted".to_owned(),
            Ok(Effect::Deleted(DeleteCause::Expired)) => "expired".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(outcome, expected, "{command:?}");
    }

    #[test]
    fn commands_on_a_session_do_what_the_contract_says() {
        let open = SessionCommand::Open { instance: "b".into() };
        let unowned = Facts {
            session: Some(SessionRecord {
                owner_instance: String::new(),
                fence: Revision(0),
                ..session()
            }),
            ..facts()
        };
        let gone = Facts {
            session: None,
            is_spent: true,
            ..facts()
        };
        let subscribed = Facts {
            subscription: Some(Subscription {
                uri: "u".into(),
                spelling: "u".into(),
                revision: Revision(3),
            }),
            ..facts()
        };
        let dead = Facts {
            owner_is_live: false,
            ..facts()
        };
        let required = subscribe(StreamNeed::Required, 0);
        let unsubscribe = SessionCommand::Unsubscribe { uri: "u".into() };

        check("alice", &open, &facts(), "opened by b");
        check("bob", &open, &facts(), "the session belongs to another principal");
        check("alice", &open, &gone, "unknown session");
        check(
            "alice",
            &SessionCommand::Close { fence: Revision(7) },
            &facts(),
            "closed by a, now \"\"",
        );
        check(
            "alice",
            &SessionCommand::Close { fence: Revision(6) },
            &facts(),
            "the stream was opened again since",
        );
        check(
            "alice",
            &SessionCommand::Close { fence: Revision(0) },
            &unowned,
            "the stream was opened again since",
        );
        check("alice", &required, &facts(), "subscribed");
        check("alice", &required, &unowned, "the session has no live stream");
        check("alice", &required, &dead, "the session has no live stream");
        check(
            "alice",
            &subscribe(StreamNeed::NotRequired, 0),
            &dead,
            "subscribed",
        );
        check("alice", &required, &subscribed, "nothing at 3");
        check(
            "alice",
            &subscribe(StreamNeed::Required, 3),
            &facts(),
            "subscribed",
        );
        check(
            "alice",
            &subscribe(StreamNeed::Required, 2),
            &facts(),
            "the session has 2 subscriptions, which is as many as it may have",
        );
        check("alice", &unsubscribe, &subscribed, "unsubscribed");
        check("alice", &unsubscribe, &facts(), "nothing");
        check("alice", &SessionCommand::Delete, &facts(), "deleted");
        check("alice", &SessionCommand::Delete, &gone, "unknown session");
    }

    #[test]
    fn an_id_that_was_used_never_lives_again() {
        let create = SessionCommand::Create {
            protocol_version: "v".into(),
            client_info: String::new(),
            client_capabilities: String::new(),
            idle_timeout_ms: 1,
        };
        let used = "invalid `session_id`: it was used before";
        check("alice", &create, &facts(), used);
        check(
            "alice",
            &create,
            &Facts {
                session: None,
                is_spent: true,
                ..facts()
            },
            used,
        );
        check(
            "alice",
            &create,
            &Facts {
                session: None,
                ..facts()
            },
            "created",
        );
    }

    #[test]
    fn only_what_is_idle_and_without_live_stream_expires() {
        let idle = Facts {
            owner_is_live: false,
            now_ms: 151,
            ..facts()
        };
        check("", &SessionCommand::Expire, &idle, "expired");
        check(
            "",
            &SessionCommand::Expire,
            &Facts {
                now_ms: 150,
                ..idle.clone()
            },
            "nothing",
        );
        check(
            "",
            &SessionCommand::Expire,
            &Facts {
                owner_is_live: true,
                ..idle.clone()
            },
            "nothing",
        );
        check(
            "",
            &SessionCommand::Expire,
            &Facts {
                active_ms: 120,
                ..idle
            },
            "nothing",
        );
    }
}
