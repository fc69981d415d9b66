//! What the tests of the commit path share: reads of what was committed, and commands on sessions.

use crate::catalog::TableName;
use crate::commit::Touch;
use crate::entry::decode_with_values;
use crate::feed::Feed;
use crate::revision::Revision;
use crate::session::{FenceNeed, SessionCommand, SessionRecord, StreamNeed};
use crate::store::LogQuery;
use proto::feed::v1::Entry;

/// The tables of the tests are the first entries of every log.
pub(super) const TABLES: u64 = 2;

pub(super) async fn read_log(feed: &Feed) -> Vec<Entry> {
    let query = LogQuery {
        with_values: true,
        ..LogQuery::after(Revision::ZERO)
    };
    let page = feed
        .reads
        .run(move |reader| reader.read_log(&query))
        .await
        .unwrap();
    assert_eq!(page.progress, page.bounds.head);
    let decode =
        |entry: crate::store::LogEntry| decode_with_values(&entry.encoded, entry.before, entry.after);
    page.entries
        .into_iter()
        .map(|entry| decode(entry).unwrap())
        .collect()
}

pub(super) async fn get(feed: &Feed, key: &str) -> Option<(u64, String)> {
    let table = feed.get_table(&TableName::new("data", "Product")).unwrap().id;
    let key = key.to_owned();
    let found = feed
        .reads
        .run(move |reader| reader.find_record(table, &key))
        .await
        .unwrap();
    found.value.map(|record| {
        (
            record.revision.0,
            String::from_utf8(record.value.to_vec()).unwrap(),
        )
    })
}

pub(super) async fn count(feed: &Feed) -> u64 {
    let table = feed.get_table(&TableName::new("data", "Product")).unwrap().id;
    feed.reads
        .run(move |reader| reader.count_records(table))
        .await
        .unwrap()
        .value
}

pub(super) fn touch(id: &str) -> Touch {
    Touch {
        ids: vec![id.to_owned()],
        only_of: None,
    }
}

pub(super) fn create(idle_timeout_ms: i64) -> SessionCommand {
    SessionCommand::Create {
        protocol_version: "2025-11-25".to_owned(),
        client_info: "{}".to_owned(),
        client_capabilities: String::new(),
        idle_timeout_ms,
    }
}

pub(super) fn subscribe(uri: &str, stream: StreamNeed) -> SessionCommand {
    SessionCommand::Subscribe {
        uri: uri.to_owned(),
        spelling: uri.to_uppercase(),
        stream,
        subscriptions_max: 2,
        fence: FenceNeed::NotChecked,
    }
}

pub(super) fn open(instance: &str) -> SessionCommand {
    SessionCommand::Open {
        instance: instance.to_owned(),
        address: String::new(),
    }
}

pub(super) const ID: &str = "session-000000001";

pub(super) async fn session(feed: &Feed, id: &str) -> SessionRecord {
    let id = id.to_owned();
    let found = feed
        .reads
        .run(move |reader| reader.find_session(&id))
        .await
        .unwrap();
    found.value.unwrap().record
}
