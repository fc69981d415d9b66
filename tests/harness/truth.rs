//! The truth that clients' views are compared with: the log, read over gRPC.

use std::net::SocketAddr;

use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::maintenance_client::MaintenanceClient;
use proto::feed::v1::record_operation::Action;
use proto::feed::v1::sessions_client::SessionsClient;
use proto::feed::v1::{
    Change, CommitRequest, CommitResponse, CompactRequest, Delete, Entry, GetSessionRequest, Principal, Put,
    ReadLogRequest, RecordOperation, Session, StatusRequest, StatusResponse, VerifyRequest,
};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::{PATIENCE, RUNTIME, eventually};

/// Kinds of frames, as they stand in the low 16 bits of an event id.
pub const TABLE_SLOT: u64 = 0;
pub const RECORD_SLOT: u64 = 1;
pub const OPENING_SLOT: u64 = 6;

/// Returns the id of the frame that a revision causes.
pub fn event_id(revision: u64, slot: u64) -> u64 {
    revision << 16 | slot
}

/// The feed service, asked directly.
#[derive(Clone)]
pub struct Truth {
    channel: Channel,
}

impl Truth {
    /// Connects at the first call, and again when the service was away.
    pub fn of(address: SocketAddr) -> Truth {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .expect("an address is an endpoint")
            .timeout(PATIENCE);
        let _runtime = RUNTIME.enter();
        Truth {
            channel: endpoint.connect_lazy(),
        }
    }

    /// Returns a client for calls that have no shortcut here.
    pub fn client(&self) -> FeedClient<Channel> {
        FeedClient::new(self.channel.clone()).max_decoding_message_size(64 * 1024 * 1024)
    }

    /// Returns the connection, for services that have no shortcut here.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Returns the whole log, whose revisions must rise without holes.
    pub fn log(&self) -> Vec<Entry> {
        self.log_after(0)
    }

    /// Returns the log after a revision; its revisions must rise without holes.
    pub fn log_after(&self, start: u64) -> Vec<Entry> {
        RUNTIME.block_on(async {
            let (mut client, mut log) = (FeedClient::new(self.channel.clone()), Vec::<Entry>::new());
            loop {
                let after_revision = log.last().map_or(start, |entry| entry.revision);
                let request = ReadLogRequest {
                    after_revision,
                    max_entries: 10_000,
                    ..Default::default()
                };
                let page = client
                    .read_log(request)
                    .await
                    .expect("the log can be read")
                    .into_inner();
                for entry in page.entries {
                    assert_eq!(entry.revision, start + log.len() as u64 + 1, "a hole in the log");
                    log.push(entry);
                }
                if page.progress >= page.head {
                    return log;
                }
            }
        })
    }

    /// Returns the revisions and the changes of a table, or of one of its records.
    pub fn changes(&self, table: &str, key: Option<&str>) -> Vec<(u64, Change)> {
        let changes = self.log().into_iter().filter_map(|entry| match entry.body {
            Some(Body::Change(change)) => Some((entry.revision, change)),
            _ => None,
        });
        changes
            .filter(|(_, change)| change.table == table && key.is_none_or(|key| change.key == key))
            .collect()
    }

    /// Returns the newest revision of a record.
    pub fn newest(&self, table: &str, key: &str) -> u64 {
        self.changes(table, Some(key))
            .last()
            .unwrap_or_else(|| panic!("no change of {table}/{key}"))
            .0
    }

    /// Returns the revision of the last open of a session's stream.
    pub fn newest_open(&self, session: &str) -> u64 {
        use proto::feed::v1::session_command::Command;
        let open = self.log().into_iter().rfind(|entry| match &entry.body {
            Some(Body::Session(command)) => {
                command.session_id == session && matches!(command.command, Some(Command::Opened(_)))
            }
            _ => false,
        });
        open.expect("the stream was opened").revision
    }

    /// Returns how the store stands.
    pub fn status(&self) -> StatusResponse {
        let mut client = MaintenanceClient::new(self.channel.clone());
        let answer = RUNTIME.block_on(client.status(StatusRequest::default()));
        answer.expect("the status can be asked").into_inner()
    }

    /// Drops the log up to its head, as soon as all of it is old enough; returns the oldest revision that is left.
    pub fn compact(&self) -> u64 {
        self.compact_until(self.status().head)
    }

    /// Drops the log up to a revision, as soon as all of it is old enough; returns the oldest revision that is left.
    pub fn compact_until(&self, until_revision: u64) -> u64 {
        eventually("the log is compacted", || {
            let request = CompactRequest {
                until_revision,
                ..Default::default()
            };
            let mut client = MaintenanceClient::new(self.channel.clone());
            let answer = RUNTIME.block_on(client.compact(request));
            match answer.expect("the log can be compacted").into_inner().oldest {
                oldest if oldest > until_revision => Ok(oldest),
                oldest => Err(format!("the oldest is {oldest}")),
            }
        })
    }

    /// Checks the whole store; returns what does not fit, in words.
    pub fn verify(&self) -> Vec<String> {
        let mut client = MaintenanceClient::new(self.channel.clone());
        let answer = RUNTIME.block_on(client.verify(VerifyRequest::default()));
        let findings = answer.expect("the store can be checked").into_inner().findings;
        findings.into_iter().map(|finding| finding.problem).collect()
    }

    /// Commits a batch.
    pub fn commit(&self, operations: Vec<RecordOperation>) -> CommitResponse {
        RUNTIME.block_on(self.commit_soon(operations))
    }

    /// Commits a batch, for those who run many at a time.
    pub async fn commit_soon(&self, operations: Vec<RecordOperation>) -> CommitResponse {
        let request = CommitRequest {
            operations,
            ..Default::default()
        };
        FeedClient::new(self.channel.clone())
            .commit(request)
            .await
            .expect("the commit is accepted")
            .into_inner()
    }

    /// Commits a batch as the anonymous principal, or returns why not.
    pub fn try_commit(&self, operations: Vec<RecordOperation>) -> Result<CommitResponse, Status> {
        let request = CommitRequest {
            operations,
            ..Default::default()
        };
        let answer = RUNTIME.block_on(FeedClient::new(self.channel.clone()).commit(request))?;
        Ok(answer.into_inner())
    }

    /// Writes a role, as a super_user.
    pub fn set_role(&self, name: &str, role: &str) {
        let request = CommitRequest {
            principal: Some(Principal {
                role: "super_user".into(),
                ..Default::default()
            }),
            operations: vec![RecordOperation {
                database: "system".into(),
                ..put("role", name, role)
            }],
            ..Default::default()
        };
        let answer = RUNTIME.block_on(FeedClient::new(self.channel.clone()).commit(request));
        answer.expect("a super_user may write roles");
    }

    /// Returns a session's record, if it exists.
    pub fn session(&self, id: &str) -> Option<Session> {
        let request = GetSessionRequest {
            session_id: id.into(),
            ..Default::default()
        };
        let answer = RUNTIME.block_on(SessionsClient::new(self.channel.clone()).get_session(request));
        match answer {
            Ok(answer) => answer.into_inner().session,
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => panic!("cannot read the session {id}: {status}"),
        }
    }
}

/// An operation that writes a record.
pub fn put(table: &str, key: &str, record: &str) -> RecordOperation {
    operation(
        table,
        key,
        Action::Put(Put {
            value: record.to_owned().into(),
        }),
    )
}

/// An operation that removes a record.
pub fn delete(table: &str, key: &str) -> RecordOperation {
    operation(table, key, Action::Delete(Delete {}))
}

fn operation(table: &str, key: &str, action: Action) -> RecordOperation {
    RecordOperation {
        database: "data".into(),
        table: table.into(),
        key: key.into(),
        precondition: None,
        action: Some(action),
    }
}
