//! What reaches the disk before a commit is acknowledged, and what a write-ahead log that was cut still has.

use std::fs::{File, OpenOptions};
use std::path::Path;

use tempfile::TempDir;

use super::mount::{has_tool, skip};
use super::replay::Replay;
use crate::harness::stack::Feed;
use crate::harness::truth::{Truth, delete, put};
use crate::harness::{RUNTIME, eventually};

const DATABASE: &str = "feed.sqlite";
const WAL: &str = "feed.sqlite-wal";

#[test]
fn every_group_of_commits_is_synced_once_before_it_is_acknowledged() {
    if !has_tool("strace") {
        return skip("the count of syncs", "there is no strace");
    }
    let directory = TempDir::new().expect("a temporary directory");
    let trace = directory.path().join("trace");
    let trace_path = trace.display().to_string();
    // -D: the child is the service, and strace stands beside it.
    let wrapper = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-y",
        "-e",
        "trace=fsync,fdatasync",
        "-o",
        &trace_path,
    ];
    let mut feed = Feed::start_under(&wrapper, directory.path());
    let truth = Truth::of(feed.address);
    let syncs = || {
        let lines = std::fs::read_to_string(&trace).expect("strace writes");
        // A call that another thread's line cuts in two has its name twice, once as `resumed`.
        lines
            .lines()
            .filter(|line| line.contains(WAL) && !line.contains("resumed"))
            .count()
    };
    // The first commit may begin a new log file, whose header is synced as well.
    truth.commit(vec![put("Item", "0", "{}")]);
    let begin = syncs();

    // Alone, each commit is a group.
    const COMMITS: usize = 20;
    for number in 1..=COMMITS {
        truth.commit(vec![put("Item", "1", "{}"), put("Item", "2", "{}")]);
        // strace writes its line when the call returns, so before the answer was sent; but by a process of its own.
        let found = eventually("a sync for each commit", || match syncs() - begin {
            found if found >= number => Ok(found),
            found => Err(format!("{found} syncs for {number} commits")),
        });
        assert_eq!(found, number, "one sync a commit");
    }

    // Together, they share.
    let begin = syncs();
    const WRITERS: usize = 64;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let truth = truth.clone();
            RUNTIME.spawn(async move {
                for _ in 0..5 {
                    truth
                        .commit_soon(vec![put("Item", &writer.to_string(), "{}")])
                        .await;
                }
            })
        })
        .collect();
    for writer in writers {
        RUNTIME.block_on(writer).expect("the commits are accepted");
    }
    feed.kill();
    let shared = syncs() - begin;
    println!("{} commits of {WRITERS} writers in {shared} syncs", 5 * WRITERS);
    assert!((5..5 * WRITERS).contains(&shared), "{shared} syncs");
}

#[test]
fn a_write_ahead_log_that_is_cut_anywhere_has_a_prefix_of_whole_commits() {
    /// SQLite's file format, "The Write-Ahead Log".
    const HEADER_BYTES: u64 = 32;
    const FRAME_BYTES: u64 = 24 + 4096;
    const FRAMES: u64 = 16;
    const STEP_BYTES: usize = 512;

    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    for number in 0..30 {
        let record = format!(r#"{{"name":"{number}"}}"#);
        let mut batch: Vec<_> = (0..3)
            .map(|index| put("Item", &format!("{}", (number + index) % 7), &record))
            .collect();
        if number % 5 == 4 {
            batch.push(delete("Item", &(number % 7).to_string()));
        }
        truth.commit(batch);
    }
    let whole = Replay::of(&mut truth.client());
    feed.kill();

    let data = directory.path().join("data");
    let length = std::fs::metadata(data.join(WAL))
        .expect("a log that was not written back")
        .len();
    assert_eq!((length - HEADER_BYTES) % FRAME_BYTES, 0, "whole frames");
    let first = length - FRAMES * FRAME_BYTES;
    let mut heads = Vec::new();
    for cut in (first..length).step_by(STEP_BYTES).chain([length]) {
        let directory = TempDir::new().expect("a temporary directory");
        let copy = directory.path().join("data");
        std::fs::create_dir(&copy).expect("a directory");
        for file in [DATABASE, WAL] {
            std::fs::copy(data.join(file), copy.join(file)).expect("a copy");
        }
        truncate(&copy.join(WAL), cut);
        let mut feed = Feed::start(directory.path());
        let truth = Truth::of(feed.address);
        let replay = Replay::of(&mut truth.client());
        replay.check_tables(&mut truth.client());
        let head = replay.entries.len();
        assert_eq!(
            replay.entries[..],
            whole.entries[..head],
            "a prefix, cut at {cut} of {length}"
        );
        heads.push(head);
        let answer = truth.commit(vec![put("Item", "new", "{}")]);
        assert_eq!(answer.head, head as u64 + 1, "it goes on");
        feed.kill();
    }
    println!("{} cuts, heads {heads:?}", heads.len());
    assert!(heads.is_sorted(), "{heads:?}");
    assert_eq!(
        heads.last(),
        Some(&whole.entries.len()),
        "the whole log has everything"
    );
    assert!(heads[0] < heads[heads.len() / 2], "several commits are cut");
    assert!(heads[0] < whole.entries.len(), "the first cut has lost something");
}

fn truncate(path: &Path, length: u64) {
    let file: File = OpenOptions::new().write(true).open(path).expect("the copy");
    file.set_len(length).expect("it can be cut");
}
