//! The naive model: the whole log, entry by entry, and what it must have led to.

use std::collections::BTreeMap;

use prost::Message;
use proto::feed::v1::entry::Body;
use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::{Change, CountRequest, Entry, GetRequest, Operation, ReadLogRequest, WatchRequest};
use sha2::{Digest, Sha256};
use tonic::transport::Channel;

use crate::harness::RUNTIME;

/// A record's place: table and key.
pub type Place = (String, String);

/// What the log says.
pub struct Replay {
    pub entries: Vec<Entry>,
    /// The records that there are, each with its revision and value.
    pub records: BTreeMap<Place, (u64, String)>,
}

impl Replay {
    /// Reads the log and checks it: dense, hash-chained up to the hash that a watch tells, each commit whole, each entry following from
    /// the ones before, times that never fall.
    pub fn of(client: &mut FeedClient<Channel>) -> Replay {
        let entries = RUNTIME.block_on(read_log(client));
        let (store_id, head, hash) = RUNTIME.block_on(head(client));
        assert_eq!(entries.len() as u64, head, "the log ends at the head");
        assert_eq!(chain(&store_id, &entries), hash, "the hash at the head");

        let (mut records, mut time_ms, mut commit_end) = (BTreeMap::new(), 0, 0);
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(entry.revision, index as u64 + 1, "a hole in the log");
            assert!(
                entry.commit_time_ms >= time_ms,
                "the time falls at {}",
                entry.revision
            );
            time_ms = entry.commit_time_ms;
            if entry.revision > commit_end {
                commit_end = entry.commit_end;
            }
            assert_eq!(
                entry.commit_end, commit_end,
                "within the commit of {}",
                entry.revision
            );
            if let Some(Body::Change(change)) = &entry.body {
                apply(&mut records, entry.revision, change);
            }
        }
        assert!(
            entries.is_empty() || commit_end == head,
            "the last commit is cut: it ends at {commit_end}"
        );
        Replay { entries, records }
    }

    /// Checks that the tables of the schema are what the log says, for every key that ever was.
    pub fn check_tables(&self, client: &mut FeedClient<Channel>) {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut places: Vec<Place> = self.entries.iter().filter_map(place_in_data).collect();
        places.sort();
        places.dedup();
        for place in places {
            let expected = self.records.get(&place);
            *counts.entry(place.0.clone()).or_default() += u64::from(expected.is_some());
            let found = RUNTIME.block_on(get(client, &place));
            assert_eq!(found.as_ref(), expected, "{place:?}");
        }
        for (table, expected) in counts {
            let request = CountRequest {
                database: "data".into(),
                table: table.clone(),
                ..Default::default()
            };
            let counted = RUNTIME
                .block_on(client.count(request))
                .expect("a count")
                .into_inner()
                .count;
            assert_eq!(counted, expected, "records of {table}");
        }
    }
}

fn place_in_data(entry: &Entry) -> Option<Place> {
    match &entry.body {
        Some(Body::Change(change)) if change.database == "data" => {
            Some((change.table.clone(), change.key.clone()))
        }
        _ => None,
    }
}

fn apply(records: &mut BTreeMap<Place, (u64, String)>, revision: u64, change: &Change) {
    if change.database != "data" {
        return;
    }
    let place = (change.table.clone(), change.key.clone());
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).expect("JSON is UTF-8");
    let before = records.get(&place).map(|(_, value)| value.clone());
    assert_eq!(
        before.unwrap_or_default(),
        text(&change.before),
        "before revision {revision}"
    );
    let expected = match (records.contains_key(&place), change.after.is_empty()) {
        (false, false) => Operation::Insert,
        (true, false) => Operation::Update,
        (true, true) => Operation::Delete,
        (false, true) => panic!("revision {revision} removes a record that is not there"),
    };
    assert_eq!(change.operation(), expected, "revision {revision}");
    match expected {
        Operation::Delete => records.remove(&place),
        _ => records.insert(place, (revision, text(&change.after))),
    };
}

async fn read_log(client: &mut FeedClient<Channel>) -> Vec<Entry> {
    let mut entries = Vec::<Entry>::new();
    loop {
        let request = ReadLogRequest {
            after_revision: entries.last().map_or(0, |entry| entry.revision),
            max_entries: 10_000,
            include_values: true,
            ..Default::default()
        };
        let page = client
            .read_log(request)
            .await
            .expect("the log can be read")
            .into_inner();
        entries.extend(page.entries);
        if page.progress >= page.head {
            return entries;
        }
    }
}

async fn head(client: &mut FeedClient<Channel>) -> (String, u64, Vec<u8>) {
    let request = WatchRequest {
        from_head: true,
        ..Default::default()
    };
    let mut watch = client.watch(request).await.expect("a watch").into_inner();
    let first = watch.message().await.expect("a watch").expect("a first answer");
    (first.store_id, first.progress, first.progress_hash.to_vec())
}

async fn get(client: &mut FeedClient<Channel>, place: &Place) -> Option<(u64, String)> {
    let request = GetRequest {
        database: "data".into(),
        table: place.0.clone(),
        key: place.1.clone(),
        ..Default::default()
    };
    let found = client
        .get(request)
        .await
        .expect("a record can be read")
        .into_inner()
        .record;
    found.map(|record| {
        (
            record.revision,
            String::from_utf8(record.value.to_vec()).expect("JSON is UTF-8"),
        )
    })
}

/// Chains the hashes of all entries, as the service says that it does.
fn chain(store_id: &str, entries: &[Entry]) -> Vec<u8> {
    let mut hash = Sha256::digest(store_id.as_bytes()).to_vec();
    for entry in entries {
        let mut bare = entry.clone();
        let mut values = [None, None];
        if let Some(Body::Change(change)) = &mut bare.body {
            let (before, after) = (
                std::mem::take(&mut change.before),
                std::mem::take(&mut change.after),
            );
            values[0] = (change.operation() != Operation::Insert).then_some(before);
            values[1] = (change.operation() != Operation::Delete).then_some(after);
        }
        let [before, after] = values;
        let mut hasher = Sha256::new();
        hasher.update(&hash);
        for part in [Some(bare.encode_to_vec().into()), before, after] {
            match part {
                Some(bytes) => {
                    hasher.update((bytes.len() as u64).to_be_bytes());
                    hasher.update(&bytes);
                }
                None => hasher.update(u64::MAX.to_be_bytes()),
            }
        }
        hash = hasher.finalize().to_vec();
    }
    hash
}
