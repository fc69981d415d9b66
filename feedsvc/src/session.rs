//! Durable sessions: what a command does to one, decided without I/O.
//!
//! The record is the wanted state. Whoever runs a command reads the facts, asks [`decide`], writes the effect together
//! with its entry, and so gives the effect its revision.

use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::sabotage::{self, Sabotage};

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
    /// Where other instances reach the owner; empty: nowhere.
    pub(crate) owner_address: String,
    /// One of [`LOG_LEVELS`]; empty: none was set.
    pub(crate) log_level: String,
}

/// The levels of log messages, from the least to the most severe (MCP 2025-11-25, Logging, Log Levels).
pub(crate) const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Whose sessions there are as many of as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionLimit {
    Principal,
    Service,
}

impl SessionLimit {
    /// Returns the name that stands in a refusal.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SessionLimit::Principal => "principal",
            SessionLimit::Service => "service",
        }
    }
}

/// How many sessions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionCounts {
    pub(crate) of_principal: u64,
    pub(crate) in_all: u64,
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
        address: String,
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
        fence: FenceNeed,
    },
    Unsubscribe {
        uri: String,
        fence: FenceNeed,
    },
    SetLogLevel {
        level: String,
    },
    Delete,
    /// Delete it if it has been idle for too long.
    Expire,
}

/// Whether a command needs the stream's fence to be a certain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceNeed {
    Exactly(Revision),
    NotChecked,
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
    /// How many sessions there are, and how many there may be; counted for a create only.
    pub(crate) sessions: SessionCounts,
    pub(crate) sessions_max: SessionCounts,
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
    LogLevelSet(SessionRecord),
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
        check_counts(principal, facts)?;
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
            owner_address: String::new(),
            log_level: String::new(),
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
        SessionCommand::Open { instance, address } => Ok(Effect::Opened(SessionRecord {
            owner_instance: instance.clone(),
            owner_address: address.clone(),
            last_active_ms: session.last_active_ms.max(facts.now_ms),
            ..session.clone()
        })),
        SessionCommand::Close { fence } => {
            let is_fenced = session.fence != *fence && !sabotage::is(Sabotage::IgnoreFence);
            if !has_owner || is_fenced {
                return Err(Refusal::Fenced);
            }
            Ok(Effect::Closed {
                instance: session.owner_instance.clone(),
                fence: *fence,
                session: SessionRecord {
                    owner_instance: String::new(),
                    fence: Revision::ZERO,
                    owner_address: String::new(),
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
            fence,
        } => {
            check_fence(*fence, session)?;
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
        SessionCommand::Unsubscribe { uri, fence } => {
            check_fence(*fence, session)?;
            match facts.subscription {
                Some(_) => Ok(Effect::Unsubscribed { uri: uri.clone() }),
                None => Ok(Effect::Nothing { revision: None }),
            }
        }
        SessionCommand::SetLogLevel { level } if session.log_level == *level => {
            Ok(Effect::Nothing { revision: None })
        }
        SessionCommand::SetLogLevel { level } => Ok(Effect::LogLevelSet(SessionRecord {
            log_level: level.clone(),
            last_active_ms: session.last_active_ms.max(facts.now_ms),
            ..session.clone()
        })),
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

/// The bound of a principal does not count for the anonymous one, which is not one client but all of them.
fn check_counts(principal: &str, facts: &Facts) -> Result<(), Refusal> {
    let (present, max) = (facts.sessions, facts.sessions_max);
    if !principal.is_empty() && present.of_principal >= max.of_principal {
        return Err(Refusal::TooManySessions {
            whose: SessionLimit::Principal,
            limit: max.of_principal,
        });
    }
    if present.in_all >= max.in_all {
        return Err(Refusal::TooManySessions {
            whose: SessionLimit::Service,
            limit: max.in_all,
        });
    }
    Ok(())
}

fn check_fence(need: FenceNeed, session: &SessionRecord) -> Result<(), Refusal> {
    match need {
        FenceNeed::Exactly(fence) if fence != session.fence => Err(Refusal::Fenced),
        FenceNeed::Exactly(_) | FenceNeed::NotChecked => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        DeleteCause, Effect, Facts, FenceNeed, SessionCommand, SessionCounts, SessionRecord, StreamNeed,
        Subscription, decide,
    };
    use crate::revision::Revision;

    const FENCED: &str = "the stream's fence is another one: it was opened again or closed since; open it again, or leave the session to its owner";

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
            owner_address: "a:1".into(),
            log_level: "info".into(),
        }
    }

    fn facts() -> Facts {
        Facts {
            session: Some(session()),
            is_spent: false,
            subscription: None,
            subscription_count: 2,
            sessions: SessionCounts::default(),
            sessions_max: SessionCounts {
                of_principal: 10,
                in_all: 20,
            },
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
            fence: FenceNeed::NotChecked,
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
            Ok(Effect::LogLevelSet(session)) => format!("log level {}", session.log_level),
            Ok(Effect::Deleted(DeleteCause::Client)) => "deleted".to_owned(),
            Ok(Effect::Deleted(DeleteCause::Expired)) => "expired".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        assert_eq!(outcome, expected, "{command:?}");
    }

    #[test]
    fn commands_on_a_session_do_what_the_contract_says() {
        let open = SessionCommand::Open {
            instance: "b".into(),
            address: "b:1".into(),
        };
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
        let unsubscribe = SessionCommand::Unsubscribe {
            uri: "u".into(),
            fence: FenceNeed::NotChecked,
        };

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
            FENCED,
        );
        check(
            "alice",
            &SessionCommand::Close { fence: Revision(0) },
            &unowned,
            FENCED,
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
    fn b_3_9_a_late_write_of_an_old_owner_is_refused() {
        let fences = [
            (FenceNeed::NotChecked, true),
            (FenceNeed::Exactly(Revision(7)), true),
            (FenceNeed::Exactly(Revision(6)), false),
            (FenceNeed::Exactly(Revision(8)), false),
        ];
        for (fence, is_present) in fences {
            let fenced = FENCED;
            let subscribe = SessionCommand::Subscribe {
                uri: "u".into(),
                spelling: "U".into(),
                stream: StreamNeed::NotRequired,
                subscriptions_max: 0,
                fence,
            };
            check(
                "alice",
                &subscribe,
                &facts(),
                if is_present { "subscribed" } else { fenced },
            );
            let unsubscribe = SessionCommand::Unsubscribe {
                uri: "u".into(),
                fence,
            };
            check(
                "alice",
                &unsubscribe,
                &facts(),
                if is_present { "nothing" } else { fenced },
            );
        }
    }

    #[test]
    fn a_level_that_is_set_already_changes_nothing() {
        let set = |level: &str| SessionCommand::SetLogLevel { level: level.into() };
        check("alice", &set("error"), &facts(), "log level error");
        check("alice", &set("info"), &facts(), "nothing");
        check(
            "bob",
            &set("error"),
            &facts(),
            "the session belongs to another principal",
        );
    }

    #[test]
    fn b_15_2_sessions_are_bounded_per_named_principal_and_in_all() {
        let create = SessionCommand::Create {
            protocol_version: "v".into(),
            client_info: String::new(),
            client_capabilities: String::new(),
            idle_timeout_ms: 1,
        };
        let with = |of_principal, in_all| Facts {
            session: None,
            sessions: SessionCounts { of_principal, in_all },
            ..facts()
        };
        let principal_is_full = "principal has 10 sessions, which is as many as it may have";
        let service_is_full = "service has 20 sessions, which is as many as it may have";
        check("alice", &create, &with(9, 19), "created");
        check("alice", &create, &with(10, 19), principal_is_full);
        check("", &create, &with(10, 19), "created");
        check("", &create, &with(10, 20), service_is_full);
        check("alice", &create, &with(0, 20), service_is_full);
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
