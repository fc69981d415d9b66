//! Watches that nobody reads: they cost bounded memory, and nobody else anything.

use proto::feed::v1::WatchRequest;
use proto::feed::v1::WatchResponse;
use proto::feed::v1::feed_client::FeedClient;
use tempfile::TempDir;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::harness::stack::Feed;
use crate::harness::truth::{Truth, put};
use crate::harness::{PATIENCE, RUNTIME};

/// The windows of the client; the rule of `Watch` in feed.proto.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const STALLED: u32 = 10;
const CONNECTION_WINDOW_BYTES: u32 = (STALLED + 2) * STREAM_WINDOW_BYTES;

/// What one unread watch may cost the service besides two answers: what HTTP/2 and the allocator keep beside them.
const WATCH_BYTES_MAX: u64 = 512 * 1024;
/// How much an answer has, unless a single entry is larger.
const ANSWER_BYTES: u64 = 128 * 1024;

async fn connect(feed: &Feed, connection_window_bytes: u32) -> FeedClient<Channel> {
    let channel = Endpoint::from_shared(format!("http://{}", feed.address))
        .expect("an address is an endpoint")
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(connection_window_bytes)
        .connect()
        .await
        .expect("the feed service is there");
    FeedClient::new(channel).max_decoding_message_size(64 * 1024 * 1024)
}

async fn watch(client: &mut FeedClient<Channel>, include_values: bool) -> Streaming<WatchResponse> {
    let request = WatchRequest {
        include_values,
        ..Default::default()
    };
    client.watch(request).await.expect("a watch").into_inner()
}

/// Reads until everything up to `head` is there.
async fn read_until(watch: &mut Streaming<WatchResponse>, head: u64) {
    let read = async {
        while watch
            .message()
            .await
            .expect("it goes on")
            .expect("an answer")
            .progress
            < head
        {}
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the others are not held up");
}

/// 8 MiB of changes: more than any window.
fn fill(truth: &Truth) -> u64 {
    fill_with(truth, 8_000)
}

/// 8 MiB in records of this size, each of which replaces one as large from the second batch on.
fn fill_with(truth: &Truth, record_bytes: usize) -> u64 {
    let record = format!(r#"{{"data":"{}"}}"#, "x".repeat(record_bytes));
    let count = (800_000 / record_bytes).max(1);
    let mut head = 0;
    for _ in 0..10 {
        let operations = (0..count).map(|number| put("Item", &number.to_string(), &record));
        head = truth.commit(operations.collect()).head;
    }
    head
}

#[test]
fn a_few_unread_watches_do_not_stall_the_others_of_their_connection() {
    let directory = TempDir::new().expect("a temporary directory");
    let feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    let head = fill(&truth);
    RUNTIME.block_on(async {
        let mut client = connect(&feed, CONNECTION_WINDOW_BYTES).await;
        let mut stalled = Vec::new();
        for _ in 0..STALLED {
            stalled.push(watch(&mut client, true).await);
        }
        let mut read = watch(&mut client, true).await;
        read_until(&mut read, head).await;
        // They have what they had, and get the rest when they are read.
        for watch in &mut stalled {
            read_until(watch, head).await;
        }
    });
}

#[test]
fn bounded_an_unread_watch_costs_the_service_two_answers_of_memory() {
    check_unread(8_000, ANSWER_BYTES);
    // An entry carries the record before and after.
    check_unread(400_000, 800_000);
}

fn check_unread(record_bytes: usize, answer_bytes: u64) {
    const WATCHES: u64 = 100;
    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    let head = fill_with(&truth, record_bytes);
    let pid = feed.service().id();
    RUNTIME.block_on(async {
        // What a first watch costs beyond the others: threads, connections to the database, their caches.
        let mut client = connect(&feed, CONNECTION_WINDOW_BYTES).await;
        for _ in 0..10 {
            read_until(&mut watch(&mut client, true).await, head).await;
        }
        let before = resident_bytes(pid);
        let mut stalled = Vec::new();
        for _ in 0..WATCHES {
            // A connection of its own for each: windows of a connection would hold them back together.
            let mut client = connect(&feed, CONNECTION_WINDOW_BYTES).await;
            let mut watch = watch(&mut client, true).await;
            watch.message().await.expect("live").expect("a first answer");
            stalled.push((client, watch));
        }
        // Another reader gets everything meanwhile, so the service had the time to make what the others do not read.
        read_until(&mut watch(&mut client, true).await, head).await;
        let each = resident_bytes(pid).saturating_sub(before) / WATCHES;
        println!("{each} bytes for each of {WATCHES} unread watches of records of {record_bytes}");
        let limit = 2 * answer_bytes + WATCH_BYTES_MAX;
        assert!(
            each < limit,
            "{each} bytes for each unread watch, {limit} at most"
        );
    });
}

#[test]
fn bounded_cancelled_watches_leave_nothing_behind() {
    const WATCHES: usize = 50;
    const ROUNDS: usize = 8;
    /// What a process that did the same again differs in anyway.
    const NOISE_BYTES: u64 = 16 * 1024 * 1024;
    let directory = TempDir::new().expect("a temporary directory");
    let mut feed = Feed::start(directory.path());
    let truth = Truth::of(feed.address);
    let head = fill_with(&truth, 400_000);
    let pid = feed.service().id();
    let mut after = Vec::new();
    for _ in 0..ROUNDS {
        RUNTIME.block_on(async {
            let mut stalled = Vec::new();
            for _ in 0..WATCHES {
                let mut client = connect(&feed, CONNECTION_WINDOW_BYTES).await;
                let mut watch = watch(&mut client, true).await;
                watch.message().await.expect("live").expect("a first answer");
                stalled.push((client, watch));
            }
            let mut client = connect(&feed, CONNECTION_WINDOW_BYTES).await;
            read_until(&mut watch(&mut client, true).await, head).await;
        });
        after.push(resident_bytes(pid));
    }
    println!("resident after each round: {after:?}");
    // The first rounds are what the allocator keeps; a leak would go on.
    let grown = after[ROUNDS - 1].saturating_sub(after[ROUNDS / 2 - 1]);
    assert!(grown < NOISE_BYTES, "{after:?}");
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes * 1024
}

#[test]
fn bounded_the_ring_takes_no_more_memory_than_it_may() {
    const RING_BYTES: u64 = 16 * 1024 * 1024;
    /// What two processes that did the same differ in anyway.
    const NOISE_BYTES: u64 = 3 * 1024 * 1024;
    let resident = |ring_bytes: u64| {
        let directory = TempDir::new().expect("a temporary directory");
        let mut feed = Feed::start_with(directory.path(), &[("--ring-bytes", &ring_bytes.to_string())]);
        let truth = Truth::of(feed.address);
        // A watch, so that entries are shared as they are in use.
        let mut client = truth.client();
        let mut live = RUNTIME.block_on(watch(&mut client, false));
        for batch in 0..30 {
            // Short entries: most of what they take is not in them.
            let operations = (0..5_000).map(|number| put("Unseen", &(number % 500).to_string(), "{}"));
            let head = truth.commit(operations.collect()).head;
            RUNTIME.block_on(read_until(&mut live, head));
            assert!(head > 5_000 * batch);
        }
        resident_bytes(feed.service().id())
    };
    let (with, without) = (resident(RING_BYTES), resident(1024));
    let taken = with.saturating_sub(without);
    println!("{taken} bytes for a ring of {RING_BYTES}");
    assert!(taken < RING_BYTES + NOISE_BYTES, "{with} with, {without} without");
    assert!(
        taken > RING_BYTES / 4,
        "the ring is in use: {with} with, {without} without"
    );
}
