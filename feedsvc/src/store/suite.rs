//! The contract of a store as tests; every implementation runs all of them.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    AccessQuery, AccessRetention, ByteRange, Direction, FeedHead, IndexState, IndexWalk, IndexWork,
    KeptAnswer, LogQuery, LogTrim, NewAccess, NewEntry, Reader, StoreError, StoredRecord, Subject, Target,
    Transaction, Writer, sqlite,
};
use crate::access_log::verify;
use crate::catalog::{TableId, TableName};
use crate::revision::Revision;
use crate::session::SessionRecord;

/// Both halves of a store that has one table.
struct Subjected {
    reader: Arc<dyn Reader>,
    writer: Box<dyn Writer>,
    table: TableId,
    _directory: tempfile::TempDir,
}

fn open() -> Subjected {
    let directory = tempfile::tempdir().unwrap();
    let store = sqlite::open(directory.path()).unwrap();
    let mut writer: Box<dyn Writer> = Box::new(store.writer);
    let head = writer.head().unwrap();
    let mut transaction = writer.begin().unwrap();
    let table = transaction
        .create_table(&TableName::new("data", "Product"))
        .unwrap();
    transaction.commit(&head).unwrap();
    Subjected {
        reader: store.reader,
        writer,
        table,
        _directory: directory,
    }
}

impl Subjected {
    /// Commits puts of keys, one revision each.
    fn put(&mut self, keys: &[&str]) {
        let mut head = self.writer.head().unwrap();
        let mut transaction = self.writer.begin().unwrap();
        for key in keys {
            let revision = head.revision.next();
            let existed = transaction.find_record(self.table, key).unwrap().is_some();
            let record = StoredRecord {
                revision,
                value: Bytes::from(format!("{{\"r\":{revision}}}")),
            };
            transaction
                .write_record(self.table, key, &record, existed)
                .unwrap();
            head = FeedHead {
                revision,
                hash: head.hash.followed_by(key.as_bytes(), None, Some(&record.value)),
                commit_time_ms: head.commit_time_ms + 1,
            };
            let entry = NewEntry {
                revision,
                commit_time_ms: head.commit_time_ms,
                principal: "",
                subject: Subject::Record {
                    table: self.table,
                    key,
                },
                encoded: key.as_bytes(),
                before: None,
                after: Some(&record.value),
                hash: head.hash,
            };
            transaction.append(&entry).unwrap();
        }
        transaction.commit(&head).unwrap();
    }

    fn query(&self, after: u64) -> LogQuery {
        LogQuery::after(Revision(after))
    }

    fn target(&self, key: Option<&str>) -> Target {
        Target {
            table: self.table,
            key: key.map(str::to_owned),
        }
    }

    /// The revisions and the progress of a page.
    fn page(&self, query: &LogQuery) -> (Vec<u64>, u64) {
        let page = self.reader.read_log(query).unwrap();
        (
            page.entries.iter().map(|entry| entry.revision.0).collect(),
            page.progress.0,
        )
    }
}

#[test]
fn a_page_ends_at_its_limits_and_the_next_goes_on_there() {
    let mut store = open();
    assert_eq!(store.page(&store.query(0)), (vec![], 0));
    store.put(&["aaaa", "bbbb", "cccc", "dddd"]);
    let page = |store: &Subjected, after, entry_limit, limit_bytes| {
        store.page(&LogQuery {
            entry_limit,
            limit_bytes,
            ..store.query(after)
        })
    };
    assert_eq!(page(&store, 0, 10, 1_000), (vec![1, 2, 3, 4], 4));
    assert_eq!(page(&store, 0, 3, 1_000), (vec![1, 2, 3], 3));
    assert_eq!(page(&store, 3, 3, 1_000), (vec![4], 4));
    assert_eq!(page(&store, 0, 10, 9), (vec![1, 2], 2));
    assert_eq!(
        page(&store, 0, 10, 1),
        (vec![1], 1),
        "a page has at least one entry"
    );
    assert_eq!(page(&store, 4, 10, 1), (vec![], 4));
    assert_eq!(
        store.page(&LogQuery {
            until: Some(Revision(2)),
            ..store.query(0)
        }),
        (vec![1, 2], 2)
    );
    let values = store
        .reader
        .read_log(&LogQuery {
            with_values: true,
            ..store.query(3)
        })
        .unwrap();
    assert_eq!(values.entries[0].after.as_deref(), Some(b"{\"r\":4}".as_slice()));
}

#[test]
fn a_page_in_the_form_of_answers_has_the_same_entries() {
    let mut store = open();
    store.put(&["aaaa", "bbbb", "cccc"]);
    store.put(&["dddd"]);
    let keys: Vec<String> = (0..10_000).map(|key| format!("key {key:05}")).collect();
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    store.put(&all);
    let head = 4 + all.len() as u64;
    let read = |after: u64, limit_bytes: usize| {
        let page = store.reader.read_encoded(Revision(after), limit_bytes).unwrap();
        let mut entries = Vec::new();
        for slice in &page.entries {
            let mut rest: &[u8] = slice;
            while let Some(entry) = proto::split_entry(&mut rest) {
                entries.push(String::from_utf8(entry.to_vec()).unwrap());
            }
            assert!(rest.is_empty());
        }
        assert_eq!(page.progress.0, after + entries.len() as u64);
        assert_eq!(
            page.progress_hash,
            store.reader.hash_at(page.progress).unwrap().value
        );
        assert_eq!(page.bounds, store.reader.bounds().unwrap());
        let size_bytes: usize = page.entries.iter().map(|slice| slice.len()).sum();
        assert!(
            page.entries.len() < 2 || size_bytes <= limit_bytes,
            "{size_bytes}"
        );
        entries
    };
    let whole = |after: u64| {
        let page = store.reader.read_log(&store.query(after)).unwrap();
        let entries = page.entries.into_iter();
        entries
            .map(|entry| String::from_utf8(entry.encoded.to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    for after in [0, 1, 3, 4, 5, 2_000, 6_000, head - 1, head] {
        assert_eq!(read(after, usize::MAX), whole(after), "after {after}");
        // In steps of different sizes.
        for limit_bytes in [1, 100, 50_000] {
            let (mut position, mut entries) = (after, Vec::new());
            while position < head {
                let step = read(position, limit_bytes);
                assert!(!step.is_empty());
                position += step.len() as u64;
                entries.extend(step);
            }
            assert_eq!(entries, whole(after), "after {after}, {limit_bytes} at a time");
        }
    }
    let beyond = store.reader.read_encoded(Revision(head + 1), 100);
    assert!(matches!(beyond, Err(StoreError::BeyondHead { .. })), "{beyond:?}");

    // A cursor in the middle of what is left.
    let cut = LogTrim {
        until: Revision(1_000),
        floor: Revision(1_000),
        keep_bytes: u64::MAX,
        entry_limit: usize::MAX,
        limit_bytes: u64::MAX,
    };
    store.change(|transaction| {
        transaction.trim_log(&cut).unwrap();
    });
    assert_eq!(
        store
            .reader
            .read_encoded(Revision(1_000), 1)
            .unwrap()
            .entries
            .len(),
        1
    );
    let below = store.reader.read_encoded(Revision(999), 100);
    assert!(matches!(below, Err(StoreError::Compacted { .. })), "{below:?}");
}

#[test]
fn a_page_of_targets_has_all_their_entries_in_order() {
    let mut store = open();
    store.put(&["a", "b", "a", "c", "b", "a"]);
    let page = |store: &Subjected, after, entry_limit, keys: &[&str]| {
        let targets = keys.iter().map(|key| store.target(Some(key))).collect();
        store.page(&LogQuery {
            entry_limit,
            targets: Some(targets),
            ..store.query(after)
        })
    };
    assert_eq!(page(&store, 0, 10, &["a", "b"]), (vec![1, 2, 3, 5, 6], 6));
    assert_eq!(page(&store, 0, 2, &["a", "b"]), (vec![1, 2], 2));
    assert_eq!(page(&store, 2, 2, &["b", "a"]), (vec![3, 5], 5));
    assert_eq!(page(&store, 5, 2, &["b", "a"]), (vec![6], 6));
    assert_eq!(page(&store, 1, 10, &["x"]), (vec![], 6));
    let whole = LogQuery {
        targets: Some(vec![store.target(None), store.target(Some("a"))]),
        ..store.query(3)
    };
    assert_eq!(store.page(&whole), (vec![4, 5, 6], 6));
}

#[test]
fn the_latest_revision_is_found_per_record_and_table() {
    let mut store = open();
    store.put(&["a", "b", "a", "c"]);
    let latest = |after, until: Option<u64>| {
        let targets = [
            Some(store.target(Some("a"))),
            Some(store.target(Some("b"))),
            Some(store.target(Some("x"))),
            Some(store.target(None)),
            None,
        ];
        let found = store
            .reader
            .find_latest(&targets, Revision(after), until.map(Revision))
            .unwrap();
        let revisions: Vec<u64> = found.value.iter().map(|revision| revision.0).collect();
        (revisions, found.revision.0)
    };
    assert_eq!(latest(0, None), (vec![3, 2, 0, 4, 0], 4));
    assert_eq!(latest(0, Some(2)), (vec![1, 2, 0, 2, 0], 2));
    assert_eq!(latest(2, Some(9)), (vec![3, 0, 0, 4, 0], 4));
    assert_eq!(latest(4, None), (vec![0, 0, 0, 0, 0], 4));
}

#[test]
fn a_transaction_that_is_dropped_leaves_no_trace() {
    let mut store = open();
    store.put(&["a"]);
    let head = store.writer.head().unwrap();
    {
        let mut transaction = store.writer.begin().unwrap();
        transaction.remove_record(store.table, "a").unwrap();
        assert_eq!(
            transaction.find_record(store.table, "a").unwrap(),
            None,
            "it sees its own writes"
        );
        transaction
            .create_table(&TableName::new("data", "Other"))
            .unwrap();
    }
    assert_eq!(store.writer.head().unwrap(), head);
    assert!(
        store
            .reader
            .find_record(store.table, "a")
            .unwrap()
            .value
            .is_some()
    );
    assert_eq!(store.reader.count_records(store.table).unwrap().value, 1);
    assert_eq!(store.reader.table_ids().unwrap().len(), 1);
}

#[test]
fn a_read_outside_of_the_log_is_an_error() {
    let mut store = open();
    store.put(&["a", "b"]);
    let beyond = store.reader.read_log(&store.query(3));
    assert!(matches!(
        beyond,
        Err(StoreError::BeyondHead { head: Revision(2) })
    ));
    assert!(matches!(
        store.reader.hash_at(Revision(3)),
        Err(StoreError::BeyondHead { .. })
    ));
    assert_eq!(
        store.reader.hash_at(Revision(2)).unwrap().value,
        store.writer.head().unwrap().hash
    );
    let genesis = crate::chain::ChainHash::genesis(store.reader.store_id());
    assert_eq!(store.reader.hash_at(Revision(0)).unwrap().value, genesis);
}

#[test]
fn kept_answers_are_found_until_they_are_dropped() {
    let mut store = open();
    let answer = |made_ms| KeptAnswer {
        request_hash: [1; 32],
        made_ms,
        answer: vec![1, 2],
    };
    let head = store.writer.head().unwrap();
    let mut transaction = store.writer.begin().unwrap();
    transaction.keep_answer("alice", "old", &answer(5), 0).unwrap();
    transaction.keep_answer("alice", "new", &answer(10), 0).unwrap();
    transaction.commit(&head).unwrap();
    let mut transaction = store.writer.begin().unwrap();
    assert_eq!(transaction.find_answer("alice", "old").unwrap(), Some(answer(5)));
    assert_eq!(transaction.find_answer("bob", "old").unwrap(), None);
    transaction
        .keep_answer("alice", "newest", &answer(15), 10)
        .unwrap();
    assert_eq!(transaction.drop_answers(10, 9).unwrap(), 0);
    assert_eq!(transaction.find_answer("alice", "old").unwrap(), None);
    assert_eq!(transaction.find_answer("alice", "new").unwrap(), Some(answer(10)));
}

impl Subjected {
    /// Runs one transaction that appends nothing.
    fn change(&mut self, change: impl FnOnce(&mut dyn Transaction)) {
        let head = self.writer.head().unwrap();
        let mut transaction = self.writer.begin().unwrap();
        change(transaction.as_mut());
        transaction.commit(&head).unwrap();
    }

    fn write(&mut self, key: &str, value: &str, existed: bool) {
        let table = self.table;
        let record = StoredRecord {
            revision: Revision(1),
            value: Bytes::copy_from_slice(value.as_bytes()),
        };
        self.change(|transaction| transaction.write_record(table, key, &record, existed).unwrap());
    }

    fn index(&self) -> Option<(super::IndexId, IndexState)> {
        let mut found = None;
        self.reader
            .view(&mut |view| {
                found = view.read_indexes(self.table)?.pop();
                Ok(())
            })
            .unwrap();
        found.map(|index| (index.id, index.state))
    }

    /// The keys of the index in its order.
    fn index_keys(&self, direction: Direction) -> Vec<String> {
        let (index, _) = self.index().unwrap();
        let mut keys = Vec::new();
        let range = ByteRange {
            lower: Vec::new(),
            upper: None,
        };
        let walk = IndexWalk {
            index,
            table: self.table,
            range: &range,
            first: None,
            direction,
        };
        self.reader
            .view(&mut |view| {
                let _ = view.walk_index(&walk, &mut |row| {
                    keys.push(row.key.to_owned());
                    Ok(std::ops::ControlFlow::Continue(()))
                })?;
                assert_eq!(view.count_in_index(index, &range, u64::MAX)?, keys.len() as u64);
                assert_eq!(view.count_in_index(index, &range, 1)?, 1.min(keys.len() as u64));
                Ok(())
            })
            .unwrap();
        keys
    }
}

#[test]
fn an_index_follows_its_records_from_the_first_to_the_last() {
    let mut store = open();
    let table = store.table;
    store.change(|transaction| transaction.create_index(table, "n").unwrap());
    assert!(
        matches!(store.index(), Some((_, IndexState::Ready))),
        "there was nothing to build"
    );
    store.write("a", r#"{"n":10}"#, false);
    store.write("b", r#"{"n":9.0}"#, false);
    store.write("c", "{}", false);
    store.write("d", r#"{"n":9}"#, false);
    assert_eq!(store.index_keys(Direction::Rising), ["c", "b", "d", "a"]);
    assert_eq!(
        store.index_keys(Direction::Falling),
        ["a", "b", "d", "c"],
        "keys rise within a value"
    );
    store.write("b", r#"{"n":"text"}"#, true);
    store.write("d", r#"{"n":9e0,"more":1}"#, true);
    store.change(|transaction| transaction.remove_record(table, "a").unwrap());
    assert_eq!(store.index_keys(Direction::Rising), ["c", "d", "b"]);
    {
        let mut dropped = store.writer.begin().unwrap();
        dropped.remove_record(table, "c").unwrap();
    }
    assert_eq!(
        store.index_keys(Direction::Rising),
        ["c", "d", "b"],
        "a dropped transaction leaves no trace"
    );
}

#[test]
fn an_index_is_built_in_steps_while_records_change() {
    let mut store = open();
    let table = store.table;
    for number in 0..10 {
        store.write(
            &format!("k{number}"),
            &format!(r#"{{"n":{}}}"#, 10 - number),
            false,
        );
    }
    store.change(|transaction| transaction.create_index(table, "n").unwrap());
    let mut steps = 0;
    loop {
        let mut work = IndexWork::Done;
        store.change(|transaction| work = transaction.work_on_indexes(3).unwrap());
        if work == IndexWork::Done {
            break;
        }
        steps += 1;
        if steps == 1 {
            assert!(matches!(store.index(), Some((_, IndexState::Building))));
            // One that is in the index already, one that is not yet, one that goes, one that comes.
            store.write("k0", r#"{"n":100}"#, true);
            store.write("k9", r#"{"n":-1}"#, true);
            store.change(|transaction| transaction.remove_record(table, "k8").unwrap());
            store.write("k99", r#"{"n":0}"#, false);
        }
    }
    assert!(steps > 3, "{steps}");
    assert!(matches!(store.index(), Some((_, IndexState::Ready))));
    assert_eq!(
        store.index_keys(Direction::Rising),
        ["k9", "k99", "k7", "k6", "k5", "k4", "k3", "k2", "k1", "k0"]
    );
}

#[test]
fn an_index_that_is_retired_is_gone_at_once_and_removed_in_steps() {
    let mut store = open();
    let table = store.table;
    store.change(|transaction| transaction.create_index(table, "n").unwrap());
    for number in 0..10 {
        store.write(&format!("k{number}"), &format!(r#"{{"n":{number}}}"#), false);
    }
    let (index, _) = store.index().unwrap();
    store.change(|transaction| transaction.retire_index(index).unwrap());
    assert!(store.index().is_none());
    store.write("k0", "{}", true);
    store.change(|transaction| transaction.create_index(table, "n").unwrap());
    let mut steps = 0;
    loop {
        let mut work = IndexWork::Done;
        store.change(|transaction| work = transaction.work_on_indexes(4).unwrap());
        if work == IndexWork::Done {
            break;
        }
        steps += 1;
    }
    assert_eq!(
        steps, 6,
        "three to remove the old one, three to build the new one"
    );
    assert_eq!(store.index_keys(Direction::Rising).len(), 10);
}

#[test]
fn a_view_is_of_one_moment() {
    let mut store = open();
    store.put(&["a", "b"]);
    let reader = Arc::clone(&store.reader);
    reader
        .view(&mut |view| {
            assert_eq!((view.head(), view.count_records(store.table)?), (Revision(2), 2));
            store.put(&["c", "a"]);
            assert_eq!((view.head(), view.count_records(store.table)?), (Revision(2), 2));
            assert!(view.find_record(store.table, "c")?.is_none());
            assert_eq!(
                view.find_record(store.table, "a")?.map(|record| record.revision),
                Some(Revision(1))
            );
            Ok(())
        })
        .unwrap();
    assert_eq!(store.reader.bounds().unwrap().head, Revision(4));
}

#[test]
fn sealing_keys_are_read_as_they_were_written_the_newest_first() {
    let mut store = open();
    let keys = |store: &Subjected| {
        let keys = store.reader.sealing_keys().unwrap().into_iter();
        keys.map(|key| (key.secret, key.made_ms)).collect::<Vec<_>>()
    };
    assert_eq!(keys(&store), []);
    for made_ms in [5, 6] {
        store.change(|transaction| {
            transaction.write_sealing_key(&[7; 32], made_ms).unwrap();
        });
    }
    assert_eq!(keys(&store), [(vec![7; 32], 6), (vec![7; 32], 5)]);
}

#[test]
fn what_has_outlived_its_time_is_dropped_a_few_at_a_time() {
    let mut store = open();
    let answer = |made_ms| KeptAnswer {
        request_hash: [1; 32],
        made_ms,
        answer: vec![1],
    };
    let head = store.writer.head().unwrap();
    let mut transaction = store.writer.begin().unwrap();
    for made_ms in 1..=5 {
        let name = format!("{made_ms}");
        transaction
            .keep_answer("alice", &name, &answer(made_ms), 0)
            .unwrap();
        transaction.remove_session(&name, made_ms).unwrap();
    }
    transaction.commit(&head).unwrap();
    let ages = store.reader.ages().unwrap();
    assert_eq!(
        (ages.oldest_request_key_ms, ages.oldest_spent_session_ms),
        (Some(1), Some(1))
    );

    let mut transaction = store.writer.begin().unwrap();
    assert_eq!(transaction.drop_answers(4, 2).unwrap(), 2);
    assert_eq!(transaction.drop_answers(4, 2).unwrap(), 1);
    assert_eq!(transaction.drop_spent_sessions(4, 2).unwrap(), 2);
    assert_eq!(transaction.drop_spent_sessions(4, 2).unwrap(), 1);
    assert!(transaction.find_answer("alice", "3").unwrap().is_none());
    assert!(transaction.find_answer("alice", "4").unwrap().is_some());
    assert!(!transaction.is_spent("3").unwrap() && transaction.is_spent("4").unwrap());
    transaction.commit(&head).unwrap();
    let ages = store.reader.ages().unwrap();
    assert_eq!(
        (ages.oldest_request_key_ms, ages.oldest_spent_session_ms),
        (Some(4), Some(4))
    );
}

#[test]
fn a_probe_is_a_commit_of_nothing() {
    let mut store = open();
    store.put(&["a"]);
    let head = store.writer.head().unwrap();
    let mut transaction = store.writer.begin().unwrap();
    transaction.probe().unwrap();
    transaction.commit(&head).unwrap();
    assert_eq!(store.writer.head().unwrap(), head);
    assert_eq!(store.page(&store.query(0)), (vec![1], 1));
}

/// Appends an entry to the access log as the commit path does.
fn append_access(writer: &mut dyn Writer, recorded_ms: i64, principal: &str, method: &str) {
    let head = writer.head().unwrap();
    let mut transaction = writer.begin().unwrap();
    let bounds = transaction.access_bounds().unwrap();
    let number = bounds.newest + 1;
    let encoded = format!("entry {number:04}");
    let entry = NewAccess {
        number,
        time_ms: recorded_ms - 5,
        recorded_ms,
        principal,
        method,
        encoded: encoded.as_bytes(),
        hash: bounds.newest_hash.followed_by(encoded.as_bytes(), None, None),
    };
    transaction.append_access(&entry).unwrap();
    transaction.commit(&head).unwrap();
}

fn trim_access(writer: &mut dyn Writer, retention: AccessRetention) -> u64 {
    let head = writer.head().unwrap();
    let mut transaction = writer.begin().unwrap();
    let dropped = transaction.trim_access(&retention).unwrap();
    transaction.commit(&head).unwrap();
    dropped
}

fn access_query(after: u64) -> AccessQuery {
    AccessQuery {
        after,
        entry_limit: 100,
        limit_bytes: 1_000,
        scan_limit: 100,
        ..AccessQuery::default()
    }
}

/// The numbers and the progress of a page of the access log.
fn access_page(store: &Subjected, query: &AccessQuery) -> (Vec<u64>, u64) {
    let page = store.reader.read_access(query).unwrap();
    (
        page.entries.iter().map(|entry| entry.number).collect(),
        page.progress,
    )
}

#[test]
fn the_access_log_is_read_in_pages_with_filters() {
    let mut store = open();
    assert_eq!(access_page(&store, &access_query(0)), (vec![], 0));
    let bounds = store.reader.access_bounds().unwrap();
    assert_eq!((bounds.newest, bounds.oldest), (0, 1));
    for (recorded_ms, principal, method) in [
        (10, "alice", "ping"),
        (20, "bob", "ping"),
        (30, "alice", "call"),
        (40, "", "ping"),
    ] {
        append_access(store.writer.as_mut(), recorded_ms, principal, method);
    }
    assert_eq!(
        store.reader.bounds().unwrap().head,
        Revision(0),
        "it takes no revision"
    );
    let query = access_query;
    let by = |principal: &str| Some(principal.to_owned());
    for (query, expected) in [
        (query(0), (vec![1, 2, 3, 4], 4)),
        (query(3), (vec![4], 4)),
        (query(4), (vec![], 4)),
        (query(9), (vec![], 9)),
        (
            AccessQuery {
                entry_limit: 3,
                ..query(0)
            },
            (vec![1, 2, 3], 3),
        ),
        (
            AccessQuery {
                limit_bytes: 25,
                ..query(0)
            },
            (vec![1, 2], 2),
        ),
        (
            AccessQuery {
                limit_bytes: 1,
                ..query(1)
            },
            (vec![2], 2),
        ),
        (
            AccessQuery {
                principal: by("alice"),
                ..query(0)
            },
            (vec![1, 3], 4),
        ),
        (
            AccessQuery {
                principal: by(""),
                ..query(0)
            },
            (vec![4], 4),
        ),
        (
            AccessQuery {
                method: by("ping"),
                ..query(1)
            },
            (vec![2, 4], 4),
        ),
        (
            AccessQuery {
                from_ms: Some(15),
                until_ms: Some(35),
                ..query(0)
            },
            (vec![2, 3], 4),
        ),
        (
            AccessQuery {
                principal: by("nobody"),
                scan_limit: 2,
                ..query(0)
            },
            (vec![], 2),
        ),
        (
            AccessQuery {
                principal: by("nobody"),
                scan_limit: 2,
                ..query(2)
            },
            (vec![], 4),
        ),
        (
            AccessQuery {
                principal: by("alice"),
                entry_limit: 1,
                ..query(0)
            },
            (vec![1], 2),
        ),
    ] {
        assert_eq!(access_page(&store, &query), expected, "{query:?}");
    }
}

#[test]
fn the_access_log_is_trimmed_by_age_and_bytes_in_steps() {
    let mut store = open();
    let retention = |recorded_from_ms, kept_bytes_max, step| AccessRetention {
        recorded_from_ms,
        kept_bytes_max,
        step,
    };
    assert_eq!(trim_access(store.writer.as_mut(), retention(100, 0, 10)), 0);
    for recorded_ms in 1..=10 {
        append_access(store.writer.as_mut(), recorded_ms, "", "ping");
    }
    let ends = |store: &Subjected| {
        let bounds = store.reader.access_bounds().unwrap();
        (bounds.oldest, bounds.newest)
    };
    assert_eq!(trim_access(store.writer.as_mut(), retention(4, u64::MAX, 2)), 2);
    assert_eq!(trim_access(store.writer.as_mut(), retention(4, u64::MAX, 2)), 1);
    assert_eq!(trim_access(store.writer.as_mut(), retention(4, u64::MAX, 2)), 0);
    assert_eq!(ends(&store), (4, 10));
    assert_eq!(
        access_page(&store, &access_query(0)),
        (vec![4, 5, 6, 7, 8, 9, 10], 10)
    );
    // Each takes 10 bytes and what the store adds.
    assert_eq!(trim_access(store.writer.as_mut(), retention(0, 3 * 138, 100)), 4);
    assert_eq!(ends(&store), (8, 10));
    let bounds = store.reader.access_bounds().unwrap();
    let first = &store.reader.read_access(&access_query(0)).unwrap().entries[0];
    assert_eq!(
        bounds.base_hash.followed_by(&first.encoded, None, None),
        first.hash
    );
    assert_eq!(verify(store.reader.as_ref(), &|| Ok(())).unwrap().entries, 3);
    assert_eq!(trim_access(store.writer.as_mut(), retention(100, 0, 100)), 3);
    assert_eq!(ends(&store), (11, 10));
    append_access(store.writer.as_mut(), 200, "", "ping");
    assert_eq!(ends(&store), (11, 11));
    let verified = verify(store.reader.as_ref(), &|| Ok(())).unwrap();
    assert_eq!((verified.entries, verified.finding), (1, None));
}

#[test]
fn sessions_are_counted_as_they_come_and_go() {
    let mut store = open();
    let session = |id: &str, principal: &str| SessionRecord {
        id: id.to_owned(),
        principal: principal.to_owned(),
        protocol_version: "v".to_owned(),
        client_info: String::new(),
        client_capabilities: String::new(),
        created_ms: 1,
        last_active_ms: 1,
        idle_timeout_ms: 1,
        owner_instance: "i".to_owned(),
        fence: Revision(7),
        owner_address: "host:1".to_owned(),
        log_level: "info".to_owned(),
    };
    let head = store.writer.head().unwrap();
    let mut transaction = store.writer.begin().unwrap();
    let counts = |transaction: &dyn Transaction, principal: &str| {
        let counts = transaction.count_sessions(principal).unwrap();
        (counts.of_principal, counts.in_all)
    };
    assert_eq!(counts(transaction.as_ref(), "alice"), (0, 0));
    for (id, principal) in [("a", "alice"), ("b", "alice"), ("c", ""), ("a", "alice")] {
        transaction.write_session(&session(id, principal)).unwrap();
    }
    assert_eq!(
        transaction.find_session("a").unwrap(),
        Some(session("a", "alice"))
    );
    assert_eq!(counts(transaction.as_ref(), "alice"), (2, 3));
    transaction.remove_session("a", 1).unwrap();
    transaction.remove_session("gone", 1).unwrap();
    assert_eq!(counts(transaction.as_ref(), "alice"), (1, 2));
    assert_eq!(counts(transaction.as_ref(), ""), (1, 2));
    transaction.remove_session("b", 2).unwrap();
    transaction.remove_session("c", 3).unwrap();
    assert!(transaction.is_spent("a").unwrap() && transaction.is_spent("b").unwrap());
    assert_eq!(counts(transaction.as_ref(), "alice"), (0, 0));
    transaction.commit(&head).unwrap();
}
