//! What the tests of this crate share: a service on a temporary directory, and short ways to say common things.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proto::feed::v1::CommitResponse;
use tempfile::TempDir;

use crate::catalog::{GivenTimes, SchemaSource, TableName, check_record};
use crate::clock::testing::ManualClock;
use crate::commit::{
    Condition, PutRules, RecordAction, RecordCommit, RecordOperation, SessionAnswer, SessionProposal,
};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::service::{Limits, OpenError, Options, Service};
use crate::session::SessionCommand;
use crate::store::Writer;

/// Two tables; `Product` takes any attribute.
pub(crate) const SDL: &str = "
    type Product @table(open: true) @export { id: ID @primaryKey }
    type Strict @table @export { id: ID @primaryKey  name: String! }
";

/// The wall time at which the tests' clocks begin.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// A service that can be opened again on the same directory.
pub(crate) struct Bench {
    pub(crate) directory: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) limits: Limits,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench {
            directory: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new(START_MS)),
            limits: Limits::default(),
        }
    }

    pub(crate) async fn open(&self) -> Service {
        self.try_open(SDL).await.unwrap()
    }

    pub(crate) async fn try_open(&self, sdl: &str) -> Result<Service, OpenError> {
        self.try_open_with(sdl, |writer| writer).await
    }

    pub(crate) async fn try_open_with(
        &self,
        sdl: &str,
        wrap_writer: impl FnOnce(Box<dyn Writer>) -> Box<dyn Writer>,
    ) -> Result<Service, OpenError> {
        let source = SchemaSource::Text {
            name: "test.graphql".to_owned(),
            sdl: sdl.to_owned(),
        };
        let options = Options {
            limits: self.limits.clone(),
            ..Options::new(self.data(), source)
        };
        Service::open_with(options, self.clock.clone(), wrap_writer).await
    }

    pub(crate) fn data(&self) -> &Path {
        self.directory.path()
    }
}

/// Returns an operation that puts a value.
pub(crate) fn put(feed: &Feed, table: &str, key: &str, value: &str) -> RecordOperation {
    let name = TableName::new("data", table);
    let table = feed.get_table(&name).unwrap();
    RecordOperation {
        key: key.to_owned(),
        condition: Condition::None,
        action: RecordAction::Put {
            value: Bytes::copy_from_slice(value.as_bytes()),
            record: check_record(&table, key, value.as_bytes(), GivenTimes::Replaced).unwrap(),
            table,
        },
        table: name,
    }
}

/// Returns an operation that deletes.
pub(crate) fn delete(table: &str, key: &str) -> RecordOperation {
    RecordOperation {
        table: TableName::new("data", table),
        key: key.to_owned(),
        condition: Condition::None,
        action: RecordAction::Delete,
    }
}

/// Commits operations as the anonymous principal.
pub(crate) async fn commit(feed: &Feed, operations: Vec<RecordOperation>) -> Result<CommitResponse, Refusal> {
    let commit = RecordCommit {
        principal: String::new(),
        traceparent: String::new(),
        operations,
        request_key: None,
        puts: PutRules::default(),
    };
    feed.pipeline.commit_records(commit).await
}

/// Runs a command on a session of the principal "alice".
pub(crate) async fn command(
    feed: &Feed,
    id: &str,
    command: SessionCommand,
) -> Result<SessionAnswer, Refusal> {
    let proposal = SessionProposal {
        principal: "alice".to_owned(),
        id: id.to_owned(),
        command,
    };
    feed.pipeline.command_session(proposal).await
}

/// Returns the revisions of results, 0 for what changed nothing.
pub(crate) fn revisions(response: &CommitResponse) -> Vec<u64> {
    response.results.iter().map(|result| result.revision).collect()
}
