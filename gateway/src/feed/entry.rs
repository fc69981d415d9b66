//! One entry of the feed as the gateway keeps it: what it needs to notify, nothing else.

use std::sync::Arc;

use proto::feed::v1;

use super::catalog::{Catalog, Table};

/// One entry of the feed.
///
/// Everything is copied out of the gRPC message it came in: a slice of it would keep the whole message in memory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its position in the feed.
    pub(crate) revision: u64,
    /// What happened.
    pub(crate) body: Body,
}

/// What an entry tells.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A record of an exported table was inserted, updated or deleted.
    Change {
        /// The record's table.
        table: Arc<Table>,
        /// The record's key.
        key: Box<str>,
    },
    /// Something happened to a session.
    Session {
        /// The session's id.
        id: Box<str>,
        /// What happened to it.
        command: SessionCommand,
    },
    /// An entry that concerns no client: a change of a table that is not exported, or a kind of entry that this version does not know.
    Other,
}

/// What happened to a session; the entry's revision is the command's.
#[derive(Clone, Debug)]
pub(crate) enum SessionCommand {
    /// It was made.
    Created,
    /// An instance opened its stream; the entry's revision is the fencing token.
    Opened {
        /// The instance that owns the stream from now on.
        instance: Box<str>,
        /// The name of the principal that opened it.
        principal: Box<str>,
    },
    /// Its stream ended.
    Closed,
    /// It subscribed to a URI.
    Subscribed {
        /// The canonical URI.
        uri: Box<str>,
        /// The URI as the client wrote it.
        spelling: Box<str>,
    },
    /// It unsubscribed from a URI.
    Unsubscribed {
        /// The canonical URI.
        uri: Box<str>,
    },
    /// The level from which on log messages are sent was set.
    LogLevelSet {
        /// One of the eight levels of MCP.
        level: Box<str>,
    },
    /// It was deleted or expired.
    Deleted,
}

impl Entry {
    /// Reads an entry of the wire, with the tables as `catalog` has them.
    pub(super) fn read(entry: v1::Entry, catalog: &Catalog) -> Entry {
        let body = match entry.body {
            Some(v1::entry::Body::Change(change)) => {
                match catalog.exported(&change.database, &change.table) {
                    Some(table) => Body::Change {
                        table: Arc::clone(table),
                        key: change.key.into(),
                    },
                    None => Body::Other,
                }
            }
            Some(v1::entry::Body::Session(session)) => match session.command {
                Some(command) => Body::Session {
                    id: session.session_id.into(),
                    command: read_command(command, entry.principal),
                },
                None => Body::Other,
            },
            None => Body::Other,
        };
        Entry {
            revision: entry.revision,
            body,
        }
    }

    /// Returns about how many bytes of memory the entry takes.
    pub(super) fn size_bytes(&self) -> usize {
        let heap = match &self.body {
            Body::Change { key, .. } => key.len(),
            Body::Session { id, command } => {
                id.len()
                    + match command {
                        SessionCommand::Opened { instance, principal } => instance.len() + principal.len(),
                        SessionCommand::Subscribed { uri, spelling } => uri.len() + spelling.len(),
                        SessionCommand::Unsubscribed { uri } => uri.len(),
                        SessionCommand::LogLevelSet { level } => level.len(),
                        SessionCommand::Created | SessionCommand::Closed | SessionCommand::Deleted => 0,
                    }
            }
            Body::Other => 0,
        };
        size_of::<Entry>() + heap
    }
}

fn read_command(command: v1::session_command::Command, principal: String) -> SessionCommand {
    use v1::session_command::Command;
    match command {
        Command::Created(_) => SessionCommand::Created,
        Command::LogLevelSet(set) => SessionCommand::LogLevelSet {
            level: set.level.into(),
        },
        Command::Opened(opened) => SessionCommand::Opened {
            instance: opened.instance.into(),
            principal: principal.into(),
        },
        Command::Closed(_) => SessionCommand::Closed,
        Command::Subscribed(subscribed) => SessionCommand::Subscribed {
            uri: subscribed.uri.into(),
            spelling: subscribed.spelling.into(),
        },
        Command::Unsubscribed(unsubscribed) => SessionCommand::Unsubscribed {
            uri: unsubscribed.uri.into(),
        },
        Command::Deleted(_) => SessionCommand::Deleted,
    }
}
