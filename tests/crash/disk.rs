//! No space, no right to write, damaged pages: right work or a clear error, no damage, and a readiness that tells the truth.

use std::path::Path;

use proto::feed::v1::feed_client::FeedClient;
use proto::feed::v1::{CommitRequest, GetRequest, ReadLogRequest, RecordOperation};
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::mount::{SmallDisk, skip};
use super::replay::Replay;
use crate::harness::http::Request;
use crate::harness::stack::{Feed, Gateway};
use crate::harness::truth::{Truth, put};
use crate::harness::{RUNTIME, eventually};

fn commit(client: &mut FeedClient<Channel>, operations: Vec<RecordOperation>) -> Result<u64, Status> {
    let request = CommitRequest {
        operations,
        ..Default::default()
    };
    RUNTIME
        .block_on(client.commit(request))
        .map(|answer| answer.into_inner().head)
}

fn health(truth: &Truth) -> ServingStatus {
    let request = HealthCheckRequest {
        service: "feed.v1.Feed".into(),
    };
    let answer = RUNTIME.block_on(HealthClient::new(truth.channel()).check(request));
    answer.expect("health is served").into_inner().status()
}

#[test]
fn a_full_disk_is_told_and_the_service_goes_on_by_itself_when_there_is_space() {
    let disk = match SmallDisk::mount(8) {
        Ok(disk) => disk,
        Err(why) => return skip("the full disk", &why),
    };
    let mut feed = Feed::start(disk.path());
    let gateway = Gateway::start(feed.address);
    gateway.wait_until_ready();
    let truth = Truth::of(feed.address);
    let mut client = truth.client();
    gateway.put("Item/small", r#"{"name":"kept"}"#);

    let large = format!(r#"{{"data":"{}"}}"#, "x".repeat(200_000));
    let mut acknowledged = 0;
    let refused = loop {
        match commit(
            &mut client,
            vec![put("Item", &format!("k{acknowledged}"), &large)],
        ) {
            Ok(_) => acknowledged += 1,
            Err(status) => break status,
        }
        assert!(acknowledged < 1_000, "the disk does not fill");
    };
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");

    // Everybody is told: by gRPC health, by the gateway's readiness with the reason, by REST.
    eventually("not serving", || match health(&truth) {
        ServingStatus::NotServing => Ok(()),
        other => Err(format!("{other:?}")),
    });
    let reason = eventually("not ready", || match gateway.readiness() {
        answer if answer.status == 503 => Ok(answer.text()),
        answer => Err(format!("{answer:?}")),
    });
    assert!(reason.contains("full") || reason.contains("space"), "{reason}");
    let answer = Request::put("/Item/other", &large).send(gateway.application);
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    // Reading goes on.
    assert_eq!(Request::get("/Item/small").send(gateway.application).status, 200);
    assert_eq!(
        Request::get("/Nothing/small").send(gateway.application).status,
        404
    );
    for _ in 0..200 {
        let refused = commit(&mut client, vec![put("Item", "more", &large)]).expect_err("the disk is full");
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    }
    let told = feed
        .service()
        .stderr()
        .iter()
        .filter(|line| line.contains("ERROR"))
        .count();
    assert!(
        (1..=3).contains(&told),
        "{told} lines for one outage: {:#?}",
        feed.service().stderr()
    );

    disk.remount("size=64m");
    eventually("serving again, although nobody writes", || match health(&truth) {
        ServingStatus::Serving => Ok(()),
        other => Err(format!("{other:?}")),
    });
    gateway.wait_until_ready();
    gateway.put("Item/other", &large);
    feed.kill();
    feed.restart();
    let replay = Replay::of(&mut truth.client());
    replay.check_tables(&mut truth.client());
    let kept = (0..acknowledged).filter(|number| {
        replay
            .records
            .contains_key(&("Item".to_owned(), format!("k{number}")))
    });
    assert_eq!(kept.count(), acknowledged, "what was acknowledged is there");
}

#[test]
fn a_directory_that_cannot_be_written_is_named_and_left_as_it_is() {
    let disk = match SmallDisk::mount(16) {
        Ok(disk) => disk,
        Err(why) => return skip("the read-only directory", &why),
    };
    let mut feed = Feed::start(disk.path());
    let truth = Truth::of(feed.address);
    truth.commit(vec![put("Item", "a", "{}")]);
    feed.kill();

    disk.remount("ro");
    let ended = Feed::try_start_stored(disk.path()).wait();
    assert_eq!(ended.status.code(), Some(1));
    let last = ended.stderr.last().expect("a reason");
    assert!(
        last.contains("data directory") && last.contains("Read-only") && !last.contains("panicked"),
        "{last}"
    );

    disk.remount("rw");
    feed.restart();
    let replay = Replay::of(&mut truth.client());
    replay.check_tables(&mut truth.client());
    assert_eq!(replay.records.len(), 1);
}

const PAGE_BYTES: usize = 4096;
const RECORDS: usize = 400;

/// What is done to a page of the database.
type Damage = fn(page: &mut [u8]);

const DAMAGES: [(&str, Damage); 3] = [
    ("its kind", |page| page[0] ^= 0xff),
    ("its cell pointers", |page| page[8..40].fill(0xff)),
    ("all of it", |page| page.fill(0)),
];

#[test]
fn a_damaged_page_is_an_error_that_names_it_and_never_wrong_data() {
    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    let record = |number: usize| format!(r#"{{"id":"{number}","name":"needle-{number:04}"}}"#);
    truth.commit(
        (0..RECORDS)
            .map(|number| put("Item", &number.to_string(), &record(number)))
            .collect(),
    );
    truth.commit(vec![put("Unseen", "a", r#"{"id":"a","name":"elsewhere"}"#)]);
    let whole = Replay::of(&mut truth.client());
    assert!(feed.service().end_by(Signal::TERM).status.success());
    let file = directory.path().join("data/feed.sqlite");
    // Frames of the write-ahead log have checksums of their own; pages of the database have none.
    let database = rusqlite::Connection::open(&file).expect("a database");
    let checkpoint = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    checkpoint.expect("everything is in the database file");
    drop(database);
    let intact = std::fs::read(&file).expect("the database");

    // Both the table's and the log's pages hold the record.
    let needle = b"needle-0200";
    let pages: Vec<usize> = (0..intact.len() / PAGE_BYTES)
        .filter(|page| holds(&intact[page * PAGE_BYTES..][..PAGE_BYTES], needle))
        .collect();
    assert!(pages.len() >= 2, "pages {pages:?}");
    for page in pages {
        for (what, damage) in DAMAGES {
            let mut damaged = intact.clone();
            damage(&mut damaged[page * PAGE_BYTES..][..PAGE_BYTES]);
            std::fs::write(&file, &damaged).expect("the damage is done");
            check_damaged(
                directory.path(),
                &whole,
                &record,
                &format!("{what} of page {page}"),
            );
        }
    }
}

fn holds(page: &[u8], needle: &[u8]) -> bool {
    page.windows(needle.len()).any(|window| window == needle)
}

/// Reads everything: each answer is right or an error, at least one is an error, and the service lives.
fn check_damaged(directory: &Path, whole: &Replay, record: &dyn Fn(usize) -> String, what: &str) {
    let mut feed = Feed::start(directory);
    let mut client = Truth::of(feed.address).client();
    let mut errors = Vec::new();
    for number in 0..RECORDS {
        let request = GetRequest {
            database: "data".into(),
            table: "Item".into(),
            key: number.to_string(),
            ..Default::default()
        };
        match RUNTIME.block_on(client.get(request)) {
            Ok(answer) => {
                let found = answer
                    .into_inner()
                    .record
                    .unwrap_or_else(|| panic!("{what}: {number} is not found"));
                assert_eq!(found.value, record(number), "{what}");
            }
            Err(status) => errors.push(status),
        }
    }
    let mut after_revision = 0;
    loop {
        let request = ReadLogRequest {
            after_revision,
            include_values: true,
            max_entries: 50,
            ..Default::default()
        };
        match RUNTIME.block_on(client.read_log(request)) {
            Ok(page) => {
                let page = page.into_inner();
                for entry in page.entries {
                    assert_eq!(Some(&entry), whole.entries.get(after_revision as usize), "{what}");
                    after_revision += 1;
                }
                if page.progress >= page.head {
                    break;
                }
            }
            Err(status) => {
                errors.push(status);
                break;
            }
        }
    }
    assert!(!errors.is_empty(), "{what}: nothing was noticed");
    for status in &errors {
        assert_eq!(status.code(), Code::Internal, "{what}: {status}");
    }
    // The answer may be here before the line has come through the pipe.
    let told = feed.service().wait_for_error("damaged");
    assert!(told.contains("backup"), "{what}: {told}");
    let log = feed.service().stderr();
    assert!(
        !log.iter().any(|line| line.contains("panicked")),
        "{what}: {log:#?}"
    );
    // What is not damaged is served; a write that meets the damage is refused and leaves nothing behind.
    let request = GetRequest {
        database: "data".into(),
        table: "Unseen".into(),
        key: "a".into(),
        ..Default::default()
    };
    let answer = RUNTIME
        .block_on(client.get(request))
        .expect("the other table")
        .into_inner();
    assert_eq!(
        answer.record.expect("a record").value,
        r#"{"id":"a","name":"elsewhere"}"#
    );
    feed.kill();
}
