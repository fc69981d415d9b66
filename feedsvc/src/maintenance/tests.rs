//! Tests of retention, compaction and backups on a real store, without sockets.

use std::path::Path;
use std::time::Duration;

use crate::access::Principal;
use crate::catalog::TableName;
use crate::commit::{PutRules, RecordCommit, RequestKey};
use crate::feed::Feed;
use crate::maintenance::{retention, whole_read};
use crate::refusal::Refusal;
use crate::revision::Revision;
use crate::session::SessionCommand;
use crate::store::sqlite::{self, Damage};
use crate::store::{Bounds, LogQuery, RestoreError, StoreError};
use crate::testing::{Bench, command, commit, put, record_access};

const MINUTE: Duration = Duration::from_secs(60);

async fn bounds(feed: &Feed) -> (u64, u64) {
    let Bounds { oldest, head } = feed.reads.run(|reader| reader.bounds()).await.unwrap();
    assert_eq!(feed.oldest(), oldest, "what watches say is what the store says");
    (oldest.0, head.0)
}

/// Commits changes, each a minute after the one before.
async fn change(bench: &Bench, feed: &Feed, count: usize) {
    for _ in 0..count {
        bench.clock.advance(MINUTE);
        commit(feed, vec![put(feed, "Product", "a", "{}")]).await.unwrap();
    }
}

async fn check_sound(feed: &Feed) {
    let verification = whole_read::verify(feed).await.unwrap();
    assert_eq!(verification.findings, []);
}

#[tokio::test]
async fn entries_go_by_age_and_the_log_stays_whole() {
    let mut bench = Bench::new();
    bench.limits.log_age = 30 * MINUTE;
    let service = bench.open().await;
    let feed = service.feed();
    change(&bench, &feed, 40).await;
    assert_eq!(bounds(&feed).await, (1, 42));
    // Those of the last 30 minutes stay, the one that is exactly as old included: 12 (minute 10) to 42 (minute 40).
    assert_eq!(retention::sweep(&feed).await.unwrap().entries, 11);
    assert_eq!(bounds(&feed).await, (12, 42));
    assert_eq!(retention::sweep(&feed).await.unwrap().entries, 0);
    check_sound(&feed).await;
    let below = feed
        .reads
        .run(|reader| reader.read_log(&LogQuery::after(Revision(10))))
        .await;
    assert!(matches!(
        below,
        Err(StoreError::Compacted { oldest: Revision(12) })
    ));

    bench.clock.advance(1_000 * MINUTE);
    retention::sweep(&feed).await.unwrap();
    assert_eq!(bounds(&feed).await, (43, 42), "nothing is left");
    change(&bench, &feed, 1).await;
    assert_eq!(bounds(&feed).await, (43, 43));
    check_sound(&feed).await;
    drop(feed);
    service.close().await;
    let service = bench.open().await;
    assert_eq!(bounds(&service.feed()).await, (43, 43));
    service.close().await;
}

#[tokio::test]
async fn entries_of_the_access_log_go_by_age_and_by_bytes() {
    let mut bench = Bench::new();
    bench.limits.access_log_age_max = 2 * MINUTE;
    let service = bench.open().await;
    let feed = service.feed();
    // More than one step drops.
    assert_eq!(record_access(&feed, 1_200).await, 1_200);
    assert_eq!(retention::sweep(&feed).await.unwrap().access_entries, 0);
    bench.clock.advance(MINUTE);
    record_access(&feed, 5).await;
    bench.clock.advance(MINUTE + Duration::from_millis(1));
    assert_eq!(retention::sweep(&feed).await.unwrap().access_entries, 1_200);
    check_sound(&feed).await;
    drop(feed);
    service.close().await;

    bench.limits.access_log_bytes_max = 1;
    let service = bench.open().await;
    let feed = service.feed();
    assert_eq!(retention::sweep(&feed).await.unwrap().access_entries, 5);
    assert_eq!(record_access(&feed, 1).await, 1_206);
    check_sound(&feed).await;
    service.close().await;
}

#[tokio::test]
async fn entries_go_by_bytes_but_never_within_the_floor() {
    let mut bench = Bench::new();
    bench.limits.log_bytes = 0;
    let service = bench.open().await;
    let feed = service.feed();
    change(&bench, &feed, 40).await;
    assert_eq!(retention::sweep(&feed).await.unwrap().entries, 31);
    assert_eq!(bounds(&feed).await, (32, 42), "the last ten minutes stay");
    check_sound(&feed).await;
    service.close().await;

    let mut bench = Bench::new();
    bench.limits.log_bytes = 6_000;
    let service = bench.open().await;
    let feed = service.feed();
    change(&bench, &feed, 40).await;
    retention::sweep(&feed).await.unwrap();
    let ages = feed.reads.run(|reader| reader.ages()).await.unwrap();
    assert!(ages.log_bytes <= 6_000 && ages.log_bytes > 5_500, "{ages:?}");
    service.close().await;
}

#[tokio::test]
async fn a_compaction_keeps_the_last_ten_minutes() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    change(&bench, &feed, 40).await;
    assert_eq!(
        retention::compact(&feed, Revision(20)).await.unwrap(),
        (Revision(21), 20)
    );
    assert_eq!(
        retention::compact(&feed, Revision(20)).await.unwrap(),
        (Revision(21), 0)
    );
    assert_eq!(
        retention::compact(&feed, Revision(42)).await.unwrap(),
        (Revision(32), 11)
    );
    assert_eq!(bounds(&feed).await, (32, 42));
    check_sound(&feed).await;
    service.close().await;
}

#[tokio::test]
async fn a_long_compaction_is_many_short_steps() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    for _ in 0..3 {
        let keys = (0..1_000).map(|key| put(&feed, "Product", &key.to_string(), "{}"));
        commit(&feed, keys.collect()).await.unwrap();
    }
    bench.clock.advance(11 * MINUTE);
    assert_eq!(
        retention::compact(&feed, Revision(3_002)).await.unwrap(),
        (Revision(3_003), 3_002)
    );
    assert_eq!(bounds(&feed).await, (3_003, 3_002));
    check_sound(&feed).await;
    service.close().await;
}

#[tokio::test]
async fn request_keys_go_after_a_day_and_ids_of_sessions_after_thirty() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let id = "session-000000001";
    let create = || SessionCommand::Create {
        protocol_version: "2025-11-25".to_owned(),
        client_info: "{}".to_owned(),
        client_capabilities: String::new(),
        idle_timeout_ms: 60_000,
    };
    command(&feed, id, create()).await.unwrap();
    command(&feed, id, SessionCommand::Delete).await.unwrap();
    let keyed = RecordCommit {
        principal: Principal::default(),
        traceparent: String::new(),
        operations: vec![put(&feed, "Product", "a", "{}")],
        request_key: Some(RequestKey {
            key: "k".to_owned(),
            request_hash: [1; 32],
        }),
        puts: PutRules::default(),
    };
    feed.pipeline.commit_records(keyed).await.unwrap();
    let kept = async || {
        retention::sweep(&feed).await.unwrap();
        let ages = feed.reads.run(|reader| reader.ages()).await.unwrap();
        (
            ages.oldest_request_key_ms.is_some(),
            ages.oldest_spent_session_ms.is_some(),
        )
    };
    assert_eq!(kept().await, (true, true));
    bench.clock.advance(24 * 60 * MINUTE);
    assert_eq!(kept().await, (true, true));
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(kept().await, (false, true));
    bench.clock.advance(29 * 24 * 60 * MINUTE);
    assert!(matches!(
        command(&feed, id, create()).await,
        Err(Refusal::InvalidArgument { .. })
    ));
    assert_eq!(kept().await, (false, false));
    command(&feed, id, create()).await.unwrap();
    service.close().await;
}

/// Commits changes of 1,000 records, a minute apart for each thousand, with the retention beside them.
async fn churn(bench: &Bench, feed: &Feed, count: usize) {
    for round in 0..count / 1_000 {
        bench.clock.advance(MINUTE);
        let value = format!(r#"{{"round":{round},"text":"{}"}}"#, "x".repeat(100));
        let keys = (0..1_000).map(|key| put(feed, "Product", &format!("key-{key}"), &value));
        commit(feed, keys.collect()).await.unwrap();
        retention::sweep(feed).await.unwrap();
    }
}

/// Opens the service, commits, trims, ends it; returns the size of the log and that of the database's file.
async fn churn_once(bench: &Bench, count: usize) -> (u64, u64) {
    let service = bench.open().await;
    let feed = service.feed();
    bench.clock.advance(11 * MINUTE);
    retention::sweep(&feed).await.unwrap();
    churn(bench, &feed, count).await;
    check_sound(&feed).await;
    let status = feed.reads.run(|reader| reader.status()).await.unwrap();
    drop(feed);
    service.close().await;
    let file_bytes = std::fs::metadata(bench.data().join("feed.sqlite")).unwrap().len();
    println!(
        "head {}, oldest {}: log {} bytes, file {file_bytes} bytes, {} of them free",
        status.bounds.head, status.bounds.oldest, status.log_bytes, status.free_bytes
    );
    (status.log_bytes, file_bytes)
}

/// `FEED_RETENTION_CHANGES` makes it as large as the recorded figures; what is left of the first changes is a tenth.
#[tokio::test]
async fn a_trimmed_file_does_not_grow_with_the_next_changes() {
    let asked = std::env::var("FEED_RETENTION_CHANGES").ok();
    let changes = asked.and_then(|text| text.parse().ok()).unwrap_or(30_000);
    let mut bench = Bench::new();
    bench.limits.log_age = Duration::from_secs(365 * 24 * 3600);
    bench.limits.log_bytes = u64::MAX;
    // The small one has few minutes.
    bench.limits.log_floor = MINUTE;
    let (full_log_bytes, full_file_bytes) = churn_once(&bench, changes).await;
    bench.limits.log_bytes = full_log_bytes / 10;
    let (log_bytes, file_bytes) = churn_once(&bench, 0).await;
    assert!(log_bytes <= full_log_bytes / 10);
    assert!(file_bytes <= full_file_bytes);
    let (trimmed_log_bytes, trimmed_file_bytes) = (log_bytes, file_bytes);
    let (log_bytes, file_bytes) = churn_once(&bench, changes).await;
    // For who records them.
    println!(
        "{changes} changes: log {full_log_bytes} bytes, file {full_file_bytes}; trimmed: log {trimmed_log_bytes}, file \
         {trimmed_file_bytes}; {changes} more: log {log_bytes}, file {file_bytes}"
    );
    assert!(
        log_bytes <= full_log_bytes / 5,
        "the newest thousand may be above the bound"
    );
    assert!(
        file_bytes <= full_file_bytes,
        "{file_bytes} bytes, {full_file_bytes} before"
    );
}

#[tokio::test]
async fn a_backup_of_a_running_store_is_of_one_moment_and_restores() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    command(
        &feed,
        "session-000000001",
        SessionCommand::Create {
            protocol_version: "2025-11-25".to_owned(),
            client_info: "{}".to_owned(),
            client_capabilities: String::new(),
            idle_timeout_ms: 60_000,
        },
    )
    .await
    .unwrap();
    assert_eq!(record_access(&feed, 3).await, 3);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("backup");
    commit(&feed, vec![put(&feed, "Product", "first", r#"{"v":1}"#)])
        .await
        .unwrap();
    let writer = tokio::spawn({
        let feed = std::sync::Arc::clone(&feed);
        async move {
            for round in 0..100 {
                let value = format!(r#"{{"v":{round}}}"#);
                // Both or none are in the backup.
                let operations = vec![
                    put(&feed, "Product", "a", &value),
                    put(&feed, "Product", "b", &value),
                ];
                commit(&feed, operations).await.unwrap();
            }
        }
    });
    let copied = whole_read::back_up(&feed, file.clone()).await.unwrap();
    writer.await.unwrap();
    assert_eq!(copied.size_bytes, std::fs::metadata(&file).unwrap().len());
    let again = whole_read::back_up(&feed, file.clone()).await;
    assert!(matches!(again, Err(Refusal::BackupPlace { .. })));
    assert_eq!(names(place.path()), ["backup"]);

    let verification = sqlite::verify_file(&file).unwrap();
    assert_eq!((verification.findings.len(), verification.head), (0, copied.head));
    assert_eq!(
        names(place.path()),
        ["backup"],
        "a backup needs no files beside it"
    );

    let restored = Bench::new();
    let outcome = sqlite::restore(&file, restored.data(), Damage::Refused, 7).unwrap();
    assert_eq!((outcome.backup_head, outcome.sessions_dropped), (copied.head, 1));
    assert!(outcome.head.0 >= copied.head.0 + (1 << 32) && outcome.head.0 < copied.head.0 + (1 << 33));
    assert_eq!(names(restored.data()), ["feed.sqlite", "lock"]);
    let verification = sqlite::verify_directory(restored.data()).unwrap();
    assert_eq!((verification.findings, verification.access_entries), (vec![], 3));
    let counted: (i64, i64) = rusqlite::Connection::open(restored.data().join("feed.sqlite"))
        .unwrap()
        .query_row(
            "SELECT (SELECT sessions FROM session_total), (SELECT count(*) FROM session_count)",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(counted, (0, 0), "no session is counted that is gone");
    let other = restored.open().await;
    let other_feed = other.feed();
    assert_ne!(other_feed.store_id, feed.store_id);
    assert_eq!(bounds(&other_feed).await, (outcome.head.0 + 1, outcome.head.0));
    let below = other_feed
        .reads
        .run(move |reader| reader.read_log(&LogQuery::after(Revision(copied.head.0 + 1_000))))
        .await;
    assert!(matches!(below, Err(StoreError::Compacted { .. })));
    let gone = other_feed
        .reads
        .run(|reader| reader.find_session("session-000000001"))
        .await
        .unwrap();
    assert!(gone.value.is_none());
    let answer = commit(&other_feed, vec![put(&other_feed, "Product", "c", "{}")])
        .await
        .unwrap();
    assert_eq!(answer.head, outcome.head.0 + 1);
    assert_eq!(record_access(&other_feed, 1).await, 4, "the access log goes on");
    check_sound(&other_feed).await;
    drop(other_feed);
    other.close().await;

    let refused = sqlite::restore(&file, restored.data(), Damage::Refused, 7);
    assert!(matches!(refused, Err(RestoreError::NotEmpty { .. })));

    // One record is not what the log says of it. Afterwards nobody could tell.
    let table = feed
        .catalog()
        .find_id(&TableName::new("data", "Product"))
        .unwrap()
        .0;
    let broken = rusqlite::Connection::open(&file).unwrap();
    let changed = broken.execute(
        &format!("UPDATE record_{table} SET value = '{{}}' WHERE key = 'first'"),
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    broken.close().unwrap();
    let data = place.path().join("data");
    let refused = sqlite::restore(&file, &data, Damage::Refused, 7);
    assert!(
        matches!(refused, Err(RestoreError::Damaged { findings: 1, .. })),
        "{refused:?}"
    );
    assert!(!data.join("feed.sqlite").exists());
    sqlite::restore(&file, &data, Damage::Accepted, 7).unwrap();
    drop(feed);
    service.close().await;
}

#[test]
fn what_is_no_backup_is_not_restored_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (text, other) = (place.path().join("text"), place.path().join("other"));
    std::fs::write(&text, "something else, and long enough to look like it").unwrap();
    rusqlite::Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    let data = place.path().join("data");
    for file in [
        &text,
        &other,
        &place.path().join("absent"),
        &place.path().to_owned(),
    ] {
        let refused = sqlite::restore(file, &data, Damage::Refused, 0);
        assert!(matches!(refused, Err(RestoreError::Backup { .. })), "{refused:?}");
        assert!(!data.join("feed.sqlite").exists() && !data.join("feed.sqlite.partial").exists());
    }
    let foreign = sqlite::restore(&other, place.path(), Damage::Refused, 0);
    assert!(matches!(foreign, Err(RestoreError::NotEmpty { .. })));
    assert_eq!(names(place.path()), ["data", "other", "text"], "not even a lock");
}

#[tokio::test]
async fn a_backup_that_is_cancelled_or_fails_leaves_no_file() {
    let bench = Bench::new();
    let service = bench.open().await;
    let feed = service.feed();
    let place = tempfile::tempdir().unwrap();
    let cancelled = feed
        .reads
        .reader()
        .copy_to(&place.path().join("backup"), &|| true);
    assert!(matches!(cancelled, Err(crate::store::CopyError::Cancelled)));
    let nowhere = whole_read::back_up(&feed, place.path().join("absent/backup")).await;
    assert!(matches!(nowhere, Err(Refusal::BackupPlace { .. })));
    assert_eq!(names(place.path()), Vec::<String>::new());
    service.close().await;
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
