//! What a check finds, and what it leaves alone.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;

use super::{verify_directory, verify_file};
use crate::session::SessionCommand;
use crate::store::{Verification, VerifyError};
use crate::testing::{Bench, command, commit, delete, put, record_access};

/// Makes a store with changes of each kind: revisions 1 and 2 are the tables, 3 to 8 changes, 9 a session.
async fn make(bench: &Bench) {
    let service = bench.open().await;
    let feed = service.feed();
    for key in ["a", "b", "c"] {
        commit(&feed, vec![put(&feed, "Product", key, r#"{"v":1}"#)])
            .await
            .unwrap();
    }
    commit(&feed, vec![put(&feed, "Product", "a", r#"{"v":2}"#)])
        .await
        .unwrap();
    commit(&feed, vec![delete("Product", "b")]).await.unwrap();
    commit(&feed, vec![put(&feed, "Strict", "s", r#"{"name":"n"}"#)])
        .await
        .unwrap();
    let create = SessionCommand::Create {
        protocol_version: "2025-11-25".to_owned(),
        client_info: "{}".to_owned(),
        client_capabilities: String::new(),
        idle_timeout_ms: 60_000,
    };
    command(&feed, "session-000000001", create).await.unwrap();
    record_access(&feed, 3).await;
    drop(feed);
    service.close().await;
}

fn damage(directory: &Path, sql: &str) {
    let connection = Connection::open(directory.join("feed.sqlite")).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn findings(verification: &Verification) -> Vec<String> {
    let findings = verification.findings.iter();
    findings
        .map(|finding| format!("{}: {}", finding.place, finding.problem))
        .collect()
}

#[tokio::test]
async fn a_sound_store_has_no_finding() {
    let bench = Bench::new();
    make(&bench).await;
    let verification = verify_directory(bench.data()).unwrap();
    assert_eq!(findings(&verification), Vec::<String>::new());
    // The records of the two tables, and the tables themselves.
    assert_eq!(
        (verification.entries, verification.records, verification.head.0),
        (9, 5, 9)
    );
    assert_eq!(verification.access_entries, 3);
}

#[tokio::test]
async fn what_does_not_fit_is_found_where_it_is() {
    let product = "(SELECT id FROM feed_table WHERE name = 'Product')";
    let record = {
        let bench = Bench::new();
        make(&bench).await;
        let connection = Connection::open(bench.data().join("feed.sqlite")).unwrap();
        let id: i64 = connection
            .query_row(&format!("SELECT {product}"), [], |row| row.get(0))
            .unwrap();
        format!("record_{id}")
    };
    let chain = "the hash does not follow from the entry and the one before";
    let cases: &[(String, &[&str])] = &[
        (
            "UPDATE log SET after = x'7b7d' WHERE revision = 8".to_owned(),
            &[
                &format!("log at revision 8: {chain}"),
                "table data.Strict, record `s`: the record is not what the log says at revision 8",
            ],
        ),
        (
            "UPDATE log SET entry = (SELECT entry FROM log WHERE revision = 3) WHERE revision = 4".to_owned(),
            &[
                &format!("log at revision 4: {chain}"),
                "log at revision 4: the entry has another revision",
                "log at revision 4: the block of entries up to 4 is not what the log has",
            ],
        ),
        (
            "UPDATE log SET hash = zeroblob(32) WHERE revision = 4".to_owned(),
            // The chain goes on from what is stored.
            &[
                &format!("log at revision 4: {chain}"),
                &format!("log at revision 5: {chain}"),
            ],
        ),
        (
            "UPDATE log SET principal = 'mallory' WHERE revision = 5".to_owned(),
            &["log at revision 5: the entry has another principal"],
        ),
        (
            "UPDATE log SET commit_time_ms = 5 WHERE revision = 5".to_owned(),
            &[
                "log at revision 5: the commit time is before that of the entry before",
                "log at revision 5: the entry has another commit time",
            ],
        ),
        (
            "DELETE FROM log WHERE revision = 5".to_owned(),
            &[
                "log at revision 5: entries up to 5 are missing",
                "log at revision 5: the block of entries up to 5 is not what the log has",
                "table data.Product, record `c`: the log has no entry of it at revision 5",
            ],
        ),
        (
            "DELETE FROM log WHERE revision = 9".to_owned(),
            &[
                "log at revision 9: the head's hash is not that of the newest entry",
                "log at revision 9: entries up to 9 are missing",
                "log at revision 9: the block of entries up to 9 is not what the log has",
            ],
        ),
        (
            "UPDATE log_block SET entries = zeroblob(3) WHERE last = (SELECT min(last) FROM log_block)"
                .to_owned(),
            &["log at revision 1: the block of entries up to 2 is not what the log has"],
        ),
        (
            "UPDATE log_block SET first = first - 1 WHERE last = 9".to_owned(),
            &["log at revision 8: two blocks have the same entries"],
        ),
        (
            "UPDATE log_block SET last = 10 WHERE last = 9".to_owned(),
            &["log at revision 9: there is a block of entries above the head"],
        ),
        (
            "UPDATE access_log SET entry = x'00' WHERE number = 2".to_owned(),
            &[
                "access log at number 2: its hash does not follow from its bytes and the hash before",
                "access log at number 2: the entry does not parse",
            ],
        ),
        (
            "UPDATE access_log SET method = 'pong' WHERE number = 2; UPDATE access_log SET time_ms = 1 WHERE number = 3".to_owned(),
            &[
                "access log at number 2: the entry has another method",
                "access log at number 3: the entry has another time",
            ],
        ),
        (
            "UPDATE access_log SET principal = 'm' WHERE number = 1; UPDATE access_log SET recorded_ms = recorded_ms + 1 WHERE number = 2"
                .to_owned(),
            &[
                "access log at number 1: the entry has another principal",
                "access log at number 3: it was recorded before the entry before",
            ],
        ),
        (
            format!(
                "UPDATE {record} SET value = '{{' WHERE key = 'c'; UPDATE feed SET oldest = 6, base_hash = (SELECT hash FROM log WHERE revision = 5);
                 DELETE FROM log WHERE revision < 6; DELETE FROM log_block WHERE last < 6"
            ),
            &["table data.Product, record `c`: the record is no JSON object"],
        ),
        (
            "UPDATE feed SET base_hash = zeroblob(32)".to_owned(),
            &[
                "log at revision 0: the chain does not begin with the store's identity",
                &format!("log at revision 1: {chain}"),
            ],
        ),
        (
            format!("UPDATE {record} SET value = '{{}}' WHERE key = 'a'"),
            &["table data.Product, record `a`: the record is not what the log says at revision 6"],
        ),
        (
            format!("UPDATE {record} SET revision = 3 WHERE key = 'a'"),
            &["table data.Product, record `a`: the record has revision 3, the log's last word on it is 6"],
        ),
        (
            format!("DELETE FROM {record} WHERE key = 'c'"),
            &[
                "table data.Product, record ``: the table has 1 records and says that it has 2",
                "table data.Product, record `c`: the record is missing; the log wrote it at revision 5",
            ],
        ),
        (
            format!(
                "INSERT INTO {record} VALUES ('b', 7, '{{}}'); UPDATE feed_table SET record_count = 3 WHERE name = 'Product'"
            ),
            &["table data.Product, record `b`: the log says at revision 7 that it was deleted"],
        ),
    ];
    for (sql, expected) in cases {
        let bench = Bench::new();
        make(&bench).await;
        damage(bench.data(), sql);
        assert_eq!(
            findings(&verify_directory(bench.data()).unwrap()),
            *expected,
            "{sql}"
        );
    }
}

const INDEXED_SDL: &str =
    "type Product @table(open: true) { id: ID @primaryKey  price: Float @indexed  name: String @indexed }";

/// Makes a store with two indexes; returns the SQL table of the one on `price`.
async fn make_indexed(bench: &Bench) -> String {
    let service = bench.try_open(INDEXED_SDL).await.unwrap();
    let feed = service.feed();
    for key in 0..3 {
        let value = format!(r#"{{"price":{key}.5,"name":"n{key}"}}"#);
        commit(&feed, vec![put(&feed, "Product", &key.to_string(), &value)])
            .await
            .unwrap();
    }
    drop(feed);
    service.close().await;
    let connection = Connection::open(bench.data().join("feed.sqlite")).unwrap();
    let sql = "SELECT id FROM attribute_index WHERE attribute = 'price'";
    let id: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    format!("index_{id}")
}

#[tokio::test]
async fn an_index_that_is_not_what_the_records_say_is_found() {
    for (sql, expected) in [
        ("", vec![]),
        (
            "DELETE FROM INDEX WHERE key = '1'",
            vec!["table data.Product, record `1`: the index on `price` has no entry of the record"],
        ),
        (
            "INSERT INTO INDEX VALUES (x'ff', '7')",
            vec![
                "table data.Product, record `7`: the index on `price` has an entry, and there is no such record",
            ],
        ),
        (
            "UPDATE INDEX SET sort_key = x'2041' WHERE key = '2'",
            vec![
                "table data.Product, record `2`: the index on `price` has no entry of the record",
                "table data.Product, record `2`: the index on `price` has an entry of another value than the record's",
            ],
        ),
        // Of one that is being built, what is built: the record `1`, but not `2`.
        (
            "DELETE FROM INDEX WHERE key IN ('1', '2'); UPDATE attribute_index SET state = 0, built_key = '1'",
            vec!["table data.Product, record `1`: the index on `price` has no entry of the record"],
        ),
        // What is out of use is nobody's.
        ("DELETE FROM INDEX; UPDATE attribute_index SET state = 2", vec![]),
    ] {
        let bench = Bench::new();
        let index = make_indexed(&bench).await;
        damage(bench.data(), &sql.replace("INDEX", &index));
        assert_eq!(
            findings(&verify_directory(bench.data()).unwrap()),
            expected,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn a_running_store_is_checked_while_commits_go_on() {
    let bench = Bench::new();
    make(&bench).await;
    let service = bench.open().await;
    let feed = service.feed();
    let writer = tokio::spawn({
        let feed = std::sync::Arc::clone(&feed);
        async move {
            for round in 0..200 {
                let value = format!(r#"{{"v":{round}}}"#);
                let operations = vec![
                    put(&feed, "Product", "a", &value),
                    delete("Product", "c"),
                    put(&feed, "Product", "c", &value),
                ];
                commit(&feed, operations).await.unwrap();
            }
        }
    });
    let mut checks = 0;
    while !writer.is_finished() || checks == 0 {
        let verification = crate::maintenance::whole_read::verify(&feed).await.unwrap();
        assert_eq!(findings(&verification), Vec::<String>::new());
        checks += 1;
    }
    writer.await.unwrap();
    drop(feed);
    service.close().await;
}

#[tokio::test]
async fn a_damaged_file_is_a_finding_and_no_failure() {
    let bench = Bench::new();
    make(&bench).await;
    let file = bench.data().join("feed.sqlite");
    damage(bench.data(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = std::fs::read(&file).unwrap();
    let log_root: usize = Connection::open(&file)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'log'",
            [],
            |row| row.get::<_, i64>(0),
        )
        .unwrap()
        .try_into()
        .unwrap();
    let page = (log_root - 1) * 4096;
    bytes[page..page + 64].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let found = findings(&verify_directory(bench.data()).unwrap());
    assert!(
        found.iter().any(|finding| finding.starts_with("database: ")),
        "{found:?}"
    );
}

/// Everything that a database holds, by table; a table that cannot be read differs from what it was.
fn contents(file: &Path) -> BTreeMap<String, String> {
    let Ok(connection) = Connection::open(file) else {
        return BTreeMap::new();
    };
    let names = || -> rusqlite::Result<Vec<String>> {
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let read = |name: &str| -> rusqlite::Result<String> {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{name}\""))?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values = (0..columns).map(|column| row.get::<_, rusqlite::types::Value>(column));
            values.collect::<Result<Vec<_>, _>>()
        })?;
        Ok(format!("{:?}", rows.collect::<Result<Vec<_>, _>>()?))
    };
    let names = names().unwrap_or_default();
    names
        .into_iter()
        .map(|name| {
            let text = read(&name).unwrap_or_else(|error| error.to_string());
            (name, text)
        })
        .collect()
}

/// Where two contents of a table part.
fn difference(kept: &BTreeMap<String, String>, now: &BTreeMap<String, String>, name: &str) -> String {
    let nothing = String::new();
    let (kept, now) = (
        kept.get(name).unwrap_or(&nothing),
        now.get(name).unwrap_or(&nothing),
    );
    let common = kept.bytes().zip(now.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let start = common.saturating_sub(60);
        text.chars().skip(start).take(120).collect::<String>()
    };
    format!(": {} -> {}", around(kept), around(now))
}

/// What nothing in a store says twice: sessions and what goes with them, which a restore drops, kept answers and keys, which live for a day or two.
const SAID_ONCE: &[&str] = &[
    "session",
    "subscription",
    "spent_session",
    "request_key",
    "sealing_key",
    "session_count",
    "session_total",
];

#[tokio::test]
async fn a_flipped_byte_is_found_or_changes_nothing_that_is_kept_for_long() {
    let bench = Bench::new();
    let _ = make_indexed(&bench).await;
    let service = bench.try_open(INDEXED_SDL).await.unwrap();
    let feed = service.feed();
    for round in 0..30 {
        let value = format!(r#"{{"price":{round},"name":"{}"}}"#, "x".repeat(300));
        let key = (round % 7).to_string();
        commit(&feed, vec![put(&feed, "Product", &key, &value)])
            .await
            .unwrap();
    }
    record_access(&feed, 20).await;
    feed.pipeline.sealing_keys(1_000).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let (whole, flipped) = (place.path().join("whole"), place.path().join("flipped"));
    crate::maintenance::whole_read::back_up(&feed, whole.clone())
        .await
        .unwrap();
    drop(feed);
    service.close().await;

    let bytes = std::fs::read(&whole).unwrap();
    let kept = contents(&whole);
    let (mut found, mut harmless, mut said_once, mut missed) = (0, 0, 0, Vec::new());
    // Every 127th byte: all kinds of pages at all kinds of places.
    for position in (0..bytes.len()).step_by(127) {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x11;
        std::fs::write(&flipped, damaged).unwrap();
        let is_found = match verify_file(&flipped) {
            Ok(verification) => !verification.findings.is_empty(),
            Err(_) => true,
        };
        if is_found {
            found += 1;
            continue;
        }
        let now = contents(&flipped);
        let changed: Vec<&String> = kept
            .keys()
            .filter(|name| now.get(*name) != kept.get(*name))
            .collect();
        if changed.is_empty() {
            harmless += 1;
        } else {
            said_once += 1;
        }
        missed.extend(
            changed
                .into_iter()
                .filter(|name| !SAID_ONCE.contains(&name.as_str()))
                .map(|name| {
                    format!(
                        "byte {position} changes `{name}`{}",
                        difference(&kept, &now, name)
                    )
                }),
        );
    }
    println!("{found} found, {harmless} change nothing, {said_once} in what is said once");
    assert!(missed.is_empty(), "not found: {missed:#?}");
    assert!(found > 100, "{found}");
}

#[test]
fn where_there_is_no_store_there_is_nothing_to_check() {
    let directory = tempfile::tempdir().unwrap();
    let absent = verify_directory(directory.path());
    assert!(matches!(absent, Err(VerifyError::NoStore { .. })));
    let absent = verify_file(&directory.path().join("x"));
    assert!(matches!(absent, Err(VerifyError::NoStore { .. })));
}
