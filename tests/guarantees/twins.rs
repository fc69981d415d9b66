//! A stream that is cut and resumed again and again carries what a stream carries that never broke: the same ids, the same bytes.
//!
//! Each pair has the same subscriptions from before the first change on, so both are owed the same frames. One of them is never
//! broken; the other one is cut at random moments, and by gateways that are killed, and goes on with `Last-Event-ID` (or its cursor) on
//! a random gateway, so from its buffer, its ring or the log. That they are two
//! clients of one run, and not one client in two runs, makes it the same commits with the same revisions for both: in two runs the
//! opens of the resumes, which are entries of the log too, would give every later change another id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::history::{History, Start};
use super::listener::{Listener, ListenerHabit};
use super::run::{DOORS, finish, look, turn};
use super::session::{Habit, Manner, Session};
use super::stand::{Stand, wait_for_commits};
use super::traffic::Traffic;
use crate::harness::random::{Random, seed};
use crate::harness::{PATIENCE, RUNTIME};

/// Pairs of each version, and of listens.
const PAIRS: u64 = 5;
const COMMITS: usize = 120;

#[test]
fn resumable_a_stream_that_is_cut_again_and_again_carries_what_one_that_never_broke_does() {
    let seed = seed();
    println!("TIDEGATE_SEED={seed}");
    let _turn = turn();
    let mut random = Random(seed);
    let mut stand = Stand::start(3, &[]);
    let gateways = stand.gateways.iter().map(|gateway| gateway.application).collect();
    let traffic = Traffic::new(gateways, stand.truth());
    let clients = spawn_pairs(&traffic, &mut random);
    let deadline = Instant::now() + PATIENCE;
    while traffic.counts.begun.load(Ordering::Relaxed) < clients.len() as u64 {
        assert!(
            Instant::now() < deadline,
            "not all have subscribed: {:?}",
            traffic.counts
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let writer = Arc::clone(&traffic).write(Random(random.below(u64::MAX)));
    let writers = vec![RUNTIME.spawn(writer)];
    // All but the one that carries those that are left alone: what comes back has nothing of before.
    for which in 1..stand.gateways.len() {
        wait_for_commits(&traffic, COMMITS / 3);
        stand.kill_gateway(which);
    }
    wait_for_commits(&traffic, COMMITS / 3);
    finish(&mut stand, &traffic, clients, writers);

    let (violations, histories, _) = look(&mut stand, &traffic, true);
    let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "TIDEGATE_SEED={seed}: {shown:#?}");
    let (mut compared, mut resumes) = (0, 0);
    for (pair, twins) in pairs(&histories) {
        let [unbroken, cut] = twins[..] else {
            panic!("{pair}: {} histories", twins.len())
        };
        assert_eq!(
            unbroken.connections.len(),
            1,
            "{} was to be left alone",
            unbroken.who
        );
        let [expected, found] = [unbroken, cut].map(frames);
        let differs = expected.iter().zip(&found).position(|(one, other)| one != other);
        assert!(
            differs.is_none() && expected.len() == found.len(),
            "TIDEGATE_SEED={seed}: {} and {} have {} and {} frames and differ from {differs:?} on",
            unbroken.who,
            cut.who,
            expected.len(),
            found.len()
        );
        compared += found.len();
        let resumed = cut
            .connections
            .iter()
            .filter(|one| matches!(one.start, Start::After(_)));
        resumes += resumed.count();
    }
    println!(
        "{compared} frames were compared, over {resumes} resumes: {:?}",
        stand.counters.0
    );
    assert!(
        resumes > 50 && compared > 1_000,
        "too little was tried: {resumes} resumes, {compared} frames"
    );
    for never in [
        "tidegate_folded_notices_total",
        "tidegate_stream_ends_total{reason=\"slow\"}",
    ] {
        assert_eq!(stand.counters.sum(never, ""), 0.0, "{never}");
    }
    for (outcome, happened) in [("buffer", true), ("ring", true), ("log", true), ("gap", false)] {
        let times = stand
            .counters
            .sum("tidegate_resumes_total", &format!("\"{outcome}\""));
        assert_eq!(times > 0.0, happened, "{times} resumes were from: {outcome}");
    }
}

/// Spawns the pairs; both of a pair have the same number.
fn spawn_pairs(traffic: &Arc<Traffic>, random: &mut Random) -> Vec<JoinHandle<()>> {
    let mut clients = Vec::new();
    let mut index = 0;
    for (group, door) in DOORS.into_iter().enumerate() {
        for pair in (0..PAIRS).map(|pair| pair + PAIRS * group as u64) {
            for habit in [Habit::Listens { pair }, Habit::IsCut { pair }] {
                let manner = Manner { door, habit };
                let random = Random(random.below(u64::MAX));
                clients.push(RUNTIME.spawn(Session::live(Arc::clone(traffic), index, manner, random)));
                index += 1;
            }
        }
    }
    for pair in (0..PAIRS).map(|pair| pair + PAIRS * DOORS.len() as u64) {
        for habit in [ListenerHabit::Listens { pair }, ListenerHabit::IsCut { pair }] {
            let random = Random(random.below(u64::MAX));
            clients.push(RUNTIME.spawn(Listener::live(Arc::clone(traffic), index, habit, random)));
            index += 1;
        }
    }
    clients
}

/// Returns the histories by their pair, the unbroken one first.
fn pairs(histories: &[History]) -> BTreeMap<&str, Vec<&History>> {
    let mut pairs: BTreeMap<&str, Vec<&History>> = BTreeMap::new();
    for history in histories {
        let (_, pair) = history.who.split_once("pair: ").expect("everybody has a pair");
        pairs.entry(pair).or_default().push(history);
    }
    for twins in pairs.values_mut() {
        twins.sort_by_key(|history| history.who.contains("IsCut"));
    }
    pairs
}

/// The ids and bytes of the notices that a client got, in order.
fn frames(history: &History) -> Vec<(u64, u64)> {
    let frames = history
        .connections
        .iter()
        .flat_map(|connection| &connection.frames);
    frames
        .filter(|frame| frame.updated().is_some())
        .map(|frame| (frame.id.expect("nothing was a gap"), frame.bytes))
        .collect()
}
