//! Random traffic and faults: sessions listen, break off and go on anywhere, while what they depend on is broken.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::listens::{Heard, Listener, reliable_while_open};
use super::validate::{Seen, Watched, atomic, expected, filtered, ordered, reliable, resumable, unique};
use crate::harness::PATIENCE;
use crate::harness::event_stream::{EventStream, Next};
use crate::harness::mcp::Client;
use crate::harness::random::{Random, seed};
use crate::harness::stack::{Gateway, Stack};
use crate::harness::truth::put;
use crate::harness::wire::{Cut, Proxy};

const SESSIONS: usize = 12;
/// Clients of the era without sessions; half of them use the resume extension.
const LISTENERS: usize = 6;
pub(super) const KEYS: u64 = 5;
const ROUNDS: usize = 10;
/// Few enough that what a session misses at most is never folded.
const COMMITS_PER_ROUND: usize = 12;

#[test]
fn all_guarantees_hold_while_services_crash_and_wires_are_cut() {
    let seed = seed();
    println!("TIDEGATE_SEED={seed}");
    let mut random = Random(seed);
    let mut stack = Stack::start(2);
    // A third gateway whose wire to the feed service breaks.
    let proxy = Proxy::to(stack.feed.address);
    let gateway = Gateway::start(proxy.address);
    gateway.wait_until_ready();
    stack.gateways.push(gateway);
    let addresses: Vec<SocketAddr> = stack.gateways.iter().map(|gateway| gateway.application).collect();

    // The revision of the last change of all, once it is committed.
    let last_revision = AtomicU64::new(u64::MAX);
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|index| open(&stack, index, &mut random))
        .collect();
    let listeners: Vec<_> = (0..LISTENERS)
        .map(|index| Listener::new(index, index % 2 == 0, &mut random))
        .collect();
    let (seen, heard): (Vec<Seen>, Vec<Heard>) = std::thread::scope(|scope| {
        let (addresses, last_revision) = (&addresses, &last_revision);
        let readers: Vec<_> = sessions
            .into_iter()
            .map(|session| {
                let random = Random(random.below(u64::MAX));
                scope.spawn(move || session.listen(addresses, last_revision, random))
            })
            .collect();
        let listeners: Vec<_> = listeners
            .into_iter()
            .map(|listener| {
                let random = Random(random.below(u64::MAX));
                scope.spawn(move || listener.listen(addresses, last_revision, random))
            })
            .collect();
        for _ in 0..ROUNDS {
            write(&stack, COMMITS_PER_ROUND, &mut random);
            break_something(&mut stack, &proxy, &mut random);
        }
        // One change of everything, so that every session has a last notice to wait for.
        let all = (0..KEYS).map(|key| put("Item", &key.to_string(), "{}")).collect();
        last_revision.store(stack.truth().commit(all).head, Ordering::Release);
        let seen = readers
            .into_iter()
            .map(|reader| reader.join().expect("a session listens to the end"))
            .collect();
        let heard = listeners
            .into_iter()
            .map(|listener| listener.join().expect("a client listens to the end"))
            .collect();
        (seen, heard)
    });

    let (log, until) = (stack.truth().log(), last_revision.into_inner());
    let mut violations: Vec<String> = atomic(&log)
        .err()
        .map(|how| format!("atomic: {how}"))
        .into_iter()
        .collect();
    for (index, heard) in heard.iter().enumerate() {
        let verdict = reliable_while_open(heard, &log, until);
        violations.extend(
            verdict
                .err()
                .map(|how| format!("listener {index}, reliable: {how}")),
        );
    }
    // Who resumes is to see what a session sees.
    let resuming = heard.iter().step_by(2).map(|heard| &heard.seen);
    for (index, seen) in seen.iter().chain(resuming).enumerate() {
        let expected = expected(seen, &log, until);
        let verdicts = [
            ("ordered", ordered(seen)),
            ("unique", unique(seen)),
            ("reliable", reliable(seen, &expected)),
            ("resumable", resumable(seen)),
            ("filtered", filtered(seen, &expected)),
        ];
        for (name, verdict) in verdicts {
            violations.extend(verdict.err().map(|how| format!("session {index}, {name}: {how}")));
        }
    }
    assert!(violations.is_empty(), "TIDEGATE_SEED={seed}: {violations:#?}");
}

/// A session, its cursor, and what it saw so far.
struct Session {
    client: Client,
    stream: EventStream,
    seen: Seen,
}

/// Opens a session on some gateway, with a subscription of the table, of some records, or of both.
fn open(stack: &Stack, index: usize, random: &mut Random) -> Session {
    let gateway = &stack.gateways[random.below(stack.gateways.len() as u64) as usize];
    let client = gateway.client();
    let stream = client.listen_opened();
    let mut watched: Vec<Watched> = Vec::new();
    if !index.is_multiple_of(3) {
        watched.push(Watched {
            table: "Item",
            key: None,
            uri: format!("feed+rest://s{index}/Item"),
        });
    }
    if index % 3 != 1 {
        let key = random.below(KEYS).to_string();
        let uri = format!("feed+rest://s{index}/Item/{key}");
        watched.push(Watched {
            table: "Item",
            key: Some(key),
            uri,
        });
    }
    for watched in &watched {
        client.subscribe(&watched.uri);
    }
    let record = stack.truth().session(&client.session).expect("a record");
    let since = |uri: &str| {
        let subscription = record
            .subscriptions
            .iter()
            .find(|subscription| subscription.spelling == uri);
        subscription.expect("it was subscribed").revision
    };
    let subscriptions = watched
        .iter()
        .map(|watched| (watched.clone(), since(&watched.uri)))
        .collect();
    Session {
        client,
        stream,
        seen: Seen {
            subscriptions,
            notices: Vec::new(),
        },
    }
}

impl Session {
    /// Reads to the end, now and then on another connection, and returns what came.
    fn listen(mut self, addresses: &[SocketAddr], last_revision: &AtomicU64, mut random: Random) -> Seen {
        let begin = Instant::now();
        let mut cursor = self.stream.last_id.expect("an opening block has an id");
        loop {
            let mut frames_left = 5 + random.below(60);
            while frames_left > 0 {
                match self.stream.next_within(Duration::from_millis(200)) {
                    Next::Frame(frame) => {
                        frames_left -= 1;
                        if frame.id.is_some() {
                            cursor = frame.number();
                        }
                        if !frame.is_position() {
                            let uri = frame.updated_uri().unwrap_or_else(|| frame.raw.clone());
                            self.seen
                                .notices
                                .push((uri, frame.id.is_some().then_some(cursor)));
                        }
                    }
                    Next::Comment | Next::Late => {}
                    // The gateway was killed, or gave the stream to a later one of this session.
                    Next::End | Next::Broken(_) => break,
                }
                if has_all(&self.seen, last_revision.load(Ordering::Acquire)) {
                    return self.seen;
                }
                assert!(
                    begin.elapsed() < PATIENCE * 6,
                    "stuck at {cursor}: {:?}",
                    self.seen
                );
            }
            self.stream.close();
            self.stream = reconnect(&self.client, cursor, addresses, &mut random);
        }
    }
}

/// Whether the last notice of each subscription has come.
pub(super) fn has_all(seen: &Seen, last_revision: u64) -> bool {
    seen.subscriptions.iter().all(|(watched, _)| {
        // The last commit has one change of each key, in order.
        let from_end = watched
            .key
            .as_ref()
            .map_or(0, |key| KEYS - 1 - key.parse::<u64>().expect("a number"));
        let last_of_it = last_revision - from_end;
        seen.notices
            .iter()
            .any(|(uri, id)| *uri == watched.uri && id.is_some_and(|id| id >> 16 >= last_of_it))
    })
}

/// Resumes on some gateway that is there.
fn reconnect(client: &Client, cursor: u64, addresses: &[SocketAddr], random: &mut Random) -> EventStream {
    let deadline = Instant::now() + PATIENCE * 3;
    loop {
        let address = addresses[random.below(addresses.len() as u64) as usize];
        match client.get(Some(&cursor.to_string())).try_open(address) {
            Ok(answer) => return EventStream::new(answer, Some(cursor)),
            Err(how) => assert!(Instant::now() < deadline, "no gateway: {how}"),
        }
    }
}

/// Commits changes of one to three records each.
fn write(stack: &Stack, commits: usize, random: &mut Random) {
    let truth = stack.truth();
    for _ in 0..commits {
        let count = 1 + random.below(3);
        truth.commit(
            (0..count)
                .map(|_| put("Item", &random.below(KEYS).to_string(), "{}"))
                .collect(),
        );
    }
}

/// Breaks one thing and mends it; what follows from that is for the services to overcome.
fn break_something(stack: &mut Stack, proxy: &Proxy, random: &mut Random) {
    match random.below(5) {
        0 => {
            stack.feed.kill();
            stack.feed.restart();
        }
        1 => {
            let gateway = &mut stack.gateways[random.below(2) as usize];
            gateway.kill();
            gateway.restart();
        }
        2 => proxy.cut(Cut::Reset),
        3 => proxy.cut(Cut::End),
        _ => {
            proxy.set(|weather| weather.stalled_down = true);
            write(stack, COMMITS_PER_ROUND, random);
            proxy.cut(Cut::Reset);
            proxy.set(|weather| weather.stalled_down = false);
        }
    }
}
