//! What is SQLite's own about the store: versions, damage, and what a compaction leaves.

use std::path::Path;

use rusqlite::Connection;

use super::open;
use crate::access_log::verify;
use crate::chain::ChainHash;
use crate::revision::Revision;
use crate::store::{FeedHead, LogQuery, NewAccess, NewEntry, StoreError, StoreOpenError, Subject, Writer};

/// Makes a store with this many entries, and runs SQL on it behind its back.
fn store_with(directory: &Path, entries: u64, sql: &str) {
    let mut writer = open(directory).unwrap().writer;
    let mut head = writer.head().unwrap();
    let mut transaction = writer.begin().unwrap();
    for _ in 0..entries {
        head = FeedHead {
            revision: head.revision.next(),
            hash: head.hash.followed_by(b"e", None, None),
            commit_time_ms: 1,
        };
        let entry = NewEntry {
            revision: head.revision,
            commit_time_ms: 1,
            principal: "",
            subject: Subject::Session { id: "s" },
            encoded: b"e",
            before: None,
            after: None,
            hash: head.hash,
        };
        transaction.append(&entry).unwrap();
    }
    transaction.commit(&head).unwrap();
    Connection::open(directory.join("feed.sqlite"))
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

fn everything_after(revision: u64) -> LogQuery {
    LogQuery::after(Revision(revision))
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    store_with(directory.path(), 0, "PRAGMA user_version = 99");
    let refused = open(directory.path()).err();
    assert!(matches!(
        refused,
        Some(StoreOpenError::Newer {
            found: 99,
            supported: super::migration::NEWEST_VERSION,
            ..
        })
    ));
}

#[test]
fn a_store_of_the_first_version_gets_what_is_missing() {
    use crate::store::Reader;
    let directory = tempfile::tempdir().unwrap();
    let first = Connection::open(directory.path().join("feed.sqlite")).unwrap();
    first.execute_batch(include_str!("schema.sql")).unwrap();
    first
        .execute_batch(
            "PRAGMA user_version = 1;
             INSERT INTO feed VALUES ('main', 'id', 0, zeroblob(32), 1, zeroblob(32), 0);
             INSERT INTO feed_table VALUES (1, 'data', 'Product', 1);
             CREATE TABLE record_1 (key TEXT PRIMARY KEY NOT NULL, revision INTEGER NOT NULL, value TEXT NOT NULL) STRICT;
             INSERT INTO record_1 VALUES ('a', 1, '{}');",
        )
        .unwrap();
    drop(first);
    let store = open(directory.path()).unwrap();
    assert_eq!(store.reader.store_id(), "id");
    assert!(
        store.reader.sealing_keys().unwrap().is_empty(),
        "one is made when it is needed"
    );
    let found = store.reader.find_record(crate::catalog::TableId(1), "a").unwrap();
    assert!(found.value.is_some());
}

#[test]
fn what_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("feed.sqlite"),
        "something else, and long enough to look like it",
    )
    .unwrap();
    let refused = open(directory.path()).err().unwrap().to_string();
    assert!(refused.contains("file is not a database"), "{refused}");
}

#[test]
fn a_hole_in_the_log_is_an_error_wherever_it_is() {
    for hole in [1, 3, 5] {
        let directory = tempfile::tempdir().unwrap();
        store_with(
            directory.path(),
            5,
            &format!("DELETE FROM log WHERE revision = {hole}"),
        );
        let reader = open(directory.path()).unwrap().reader;
        let read = crate::store::Reader::read_log(reader.as_ref(), &everything_after(0));
        let Err(StoreError::Damaged { revision, .. }) = read else {
            panic!("{read:?}")
        };
        assert_eq!(revision, Revision(hole));
    }
}

#[test]
fn below_the_oldest_revision_is_an_error_that_names_it() {
    use crate::store::Reader;
    let directory = tempfile::tempdir().unwrap();
    let compact = "UPDATE feed SET oldest = 4, base_hash = (SELECT hash FROM log WHERE revision = 3);
                   DELETE FROM log WHERE revision < 4";
    store_with(directory.path(), 5, compact);
    let reader = open(directory.path()).unwrap().reader;
    for revision in [0, 2] {
        let read = reader.read_log(&everything_after(revision));
        assert!(matches!(read, Err(StoreError::Compacted { oldest: Revision(4) })));
        assert!(matches!(
            reader.hash_at(Revision(revision)),
            Err(StoreError::Compacted { .. })
        ));
    }
    assert_eq!(reader.read_log(&everything_after(3)).unwrap().entries.len(), 2);
    let mut hash = ChainHash::genesis(reader.store_id());
    for revision in 1..=5 {
        hash = hash.followed_by(b"e", None, None);
        if revision >= 3 {
            assert_eq!(reader.hash_at(Revision(revision)).unwrap().value, hash);
        }
    }
}

#[test]
fn commits_are_durable_by_the_settings_of_the_connection_that_writes() {
    use rusqlite::types::Value;
    let directory = tempfile::tempdir().unwrap();
    let writer = open(directory.path()).unwrap().writer;
    assert_eq!(writer.pragma("journal_mode"), Value::Text("wal".to_owned()));
    // FULL: the write-ahead log is synced at every commit.
    assert_eq!(writer.pragma("synchronous"), Value::Integer(2));
}

#[test]
fn a_connection_that_is_not_durable_is_refused() {
    for (name, value) in [("synchronous", "NORMAL"), ("journal_mode", "DELETE")] {
        let directory = tempfile::tempdir().unwrap();
        let connection = open::connect_for_writing(&directory.path().join("db")).unwrap();
        assert_eq!(open::check_durability(&connection), Ok(()));
        connection.pragma_update(None, name, value).unwrap();
        let refused = open::check_durability(&connection).unwrap_err();
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn a_store_of_an_older_version_is_brought_to_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let genesis = ChainHash::genesis("old");
    let hash = genesis.followed_by(b"entry", None, Some(b"after"));
    {
        let old = Connection::open(directory.path().join("feed.sqlite")).unwrap();
        old.execute_batch(include_str!("schema.sql")).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute(
            "INSERT INTO feed VALUES ('main', 'old', 1, ?1, 1, ?2, 5)",
            (hash.as_bytes(), genesis.as_bytes()),
        )
        .unwrap();
        old.execute(
            "INSERT INTO log VALUES (1, 5, 'alice', NULL, 'key', x'656e747279', NULL, x'6166746572', ?1)",
            [hash.as_bytes()],
        )
        .unwrap();
    }
    let opened = open(directory.path()).unwrap();
    let reader: &dyn crate::store::Reader = opened.reader.as_ref();
    assert_eq!(reader.store_id(), "old");
    let ages = reader.ages().unwrap();
    assert_eq!(ages.log_bytes, 5 + 5 + 5 + 2 * 3 + 128);
    assert_eq!(reader.read_log(&everything_after(0)).unwrap().entries.len(), 1);
    assert_eq!(reader.hash_at(Revision(1)).unwrap().value, hash);
    // It is in no block, and read all the same.
    let page = reader.read_encoded(Revision(0), 100).unwrap();
    assert_eq!(
        (page.entries, page.progress, page.progress_hash),
        (vec![b"\x0a\x05entry".as_slice().into()], Revision(1), hash)
    );
    drop(opened);
    let version: i64 = Connection::open(directory.path().join("feed.sqlite"))
        .unwrap()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, super::migration::NEWEST_VERSION);
}

#[test]
fn b_15_3_the_first_entry_of_the_access_log_that_does_not_fit_is_named() {
    for (damage, fitting, number, problem) in [
        (
            "UPDATE access_log SET entry = X'00' WHERE number = 3",
            2,
            3,
            "does not follow",
        ),
        (
            "UPDATE access_log SET hash = zeroblob(32) WHERE number = 1",
            0,
            1,
            "does not follow",
        ),
        ("DELETE FROM access_log WHERE number = 4", 3, 4, "is missing"),
        ("DELETE FROM access_log WHERE number = 5", 4, 5, "is missing"),
        ("DELETE FROM access_log", 0, 1, "is missing"),
        (
            "UPDATE access_bounds SET newest_hash = zeroblob(32)",
            5,
            5,
            "does not end",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path()).unwrap();
        let head = store.writer.head().unwrap();
        let mut transaction = store.writer.begin().unwrap();
        for number in 1..=5 {
            let bounds = transaction.access_bounds().unwrap();
            let entry = NewAccess {
                number,
                time_ms: 1,
                recorded_ms: 1,
                principal: "",
                method: "ping",
                encoded: &[1, 2],
                hash: bounds.newest_hash.followed_by(&[1, 2], None, None),
            };
            transaction.append_access(&entry).unwrap();
        }
        transaction.commit(&head).unwrap();
        let whole = verify(store.reader.as_ref(), &|| Ok(())).unwrap();
        assert_eq!((whole.entries, whole.finding), (5, None));
        Connection::open(directory.path().join("feed.sqlite"))
            .unwrap()
            .execute_batch(damage)
            .unwrap();
        let found = verify(store.reader.as_ref(), &|| Ok(())).unwrap();
        let finding = found.finding.unwrap();
        assert_eq!((found.entries, finding.number), (fitting, number), "{damage}");
        assert!(finding.problem.contains(problem), "{damage}: {}", finding.problem);
    }
}

#[test]
fn sessions_of_an_older_store_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("feed.sqlite");
    let old = Connection::open(&file).unwrap();
    old.execute_batch(include_str!("schema.sql")).unwrap();
    old.execute_batch(
        "INSERT INTO feed VALUES ('main', 's', 0, zeroblob(32), 1, zeroblob(32), 0);
         INSERT INTO session VALUES ('a', 'alice', 'v', '', '', 1, 1, 1, '', 0), ('b', 'alice', 'v', '', '', 1, 1, 1, '', 0),
         ('c', '', 'v', '', '', 1, 1, 1, '', 0);
         PRAGMA user_version = 1",
    )
    .unwrap();
    drop(old);
    let mut store = open(directory.path()).unwrap();
    let transaction = store.writer.begin().unwrap();
    let counts = transaction.count_sessions("alice").unwrap();
    assert_eq!((counts.of_principal, counts.in_all), (2, 3));
    let session = transaction.find_session("a").unwrap().unwrap();
    assert_eq!(
        (session.log_level.as_str(), session.owner_address.as_str()),
        ("", "")
    );
}
