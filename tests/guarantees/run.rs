//! Random traffic and faults: two hundred sessions of all versions and listens, on three gateways, while everything breaks.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::history::{Body, History, Kind, Watched};
use super::ledger::{Bounds, Ledger};
use super::listener::{Listener, ListenerHabit};
use super::report::Report;
use super::session::{Door, Habit, Manner, Session};
use super::stand::{CATCH_UP, MEMORY_BYTES, Stand, script, wait_for_commits};
use super::traffic::{End, KEYS, Phase, TABLES, Traffic, all_operations};
use super::validate::{Violation, violations};
use crate::harness::random::Random;
use crate::harness::truth::{RECORD_SLOT, TABLE_SLOT, event_id};
use crate::harness::{PATIENCE, RUNTIME};

/// Sessions, spread evenly over the versions.
const SESSIONS: usize = 200;
/// Of them: subscribed to every table, through small sockets, and stalled at times.
const SLOW: usize = 8;
/// Clients of listens; half of them resume.
const LISTENERS: usize = 24;
const WRITERS: usize = 2;
/// Between one fault and the next.
const COMMITS_BETWEEN: usize = 15;

pub const DOORS: [Door; 4] = [
    Door::Streamable("2025-11-25"),
    Door::Streamable("2025-06-18"),
    Door::Streamable("2025-03-26"),
    Door::HttpSse,
];

/// How a run is to go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan<'a> {
    pub seed: u64,
    /// The fault that is built into the services, if there is one: then the run ends as soon as something is broken.
    pub sabotage: Option<&'a str>,
}

/// What came of a run.
pub struct Outcome {
    pub violations: Vec<Violation>,
    pub report: Report,
}

/// Waits until no other run is under way: each has as many processes and clients as two cores can carry.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // One that failed leaves nothing behind.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs it all.
pub fn run(plan: Plan<'_>) -> Outcome {
    let _turn = turn();
    let begun = Instant::now();
    let mut random = Random(plan.seed);
    let variables: Vec<(&str, &str)> = plan.sabotage.map(|kind| ("SABOTAGE", kind)).into_iter().collect();
    let mut stand = Stand::start(3, &variables);
    let gateways = stand.gateways.iter().map(|gateway| gateway.application).collect();
    let traffic = Traffic::new(gateways, stand.truth());
    let clients = spawn_clients(&traffic, &mut random);
    let writers: Vec<JoinHandle<()>> = (0..WRITERS)
        .map(|_| RUNTIME.spawn(Arc::clone(&traffic).write(Random(random.below(u64::MAX)))))
        .collect();

    let mut found = Vec::new();
    for fault in script(&mut random) {
        wait_for_commits(&traffic, COMMITS_BETWEEN);
        stand.break_something(fault, &traffic, &mut random);
        if plan.sabotage.is_some() {
            found = look(&mut stand, &traffic, false).0;
            if !found.is_empty() {
                break;
            }
        }
    }
    if found.is_empty() {
        wait_for_commits(&traffic, COMMITS_BETWEEN);
        finish(&mut stand, &traffic, clients, writers);
    } else {
        traffic.phase.send_replace(Phase::Over);
        clients.iter().chain(&writers).for_each(JoinHandle::abort);
    }
    let (found, histories, ledger) = look(&mut stand, &traffic, found.is_empty());
    let report = Report::new(&stand, &traffic, &histories, &ledger, begun.elapsed());
    Outcome {
        violations: found,
        report,
    }
}

fn spawn_clients(traffic: &Arc<Traffic>, random: &mut Random) -> Vec<JoinHandle<()>> {
    let mut clients = Vec::new();
    for index in 0..SESSIONS {
        let manner = Manner {
            door: DOORS[index % DOORS.len()],
            habit: if index < SLOW {
                Habit::Slow
            } else {
                Habit::Anything
            },
        };
        let random = Random(random.below(u64::MAX));
        clients.push(RUNTIME.spawn(Session::live(Arc::clone(traffic), index, manner, random)));
    }
    for index in 0..LISTENERS {
        let habit = [ListenerHabit::Resumes, ListenerHabit::Forgets][index % 2];
        let random = Random(random.below(u64::MAX));
        clients.push(RUNTIME.spawn(Listener::live(Arc::clone(traffic), index, habit, random)));
    }
    clients
}

/// Lets everybody calm down, changes everything once more, and waits until all have seen it.
pub fn finish(
    stand: &mut Stand,
    traffic: &Arc<Traffic>,
    clients: Vec<JoinHandle<()>>,
    writers: Vec<JoinHandle<()>>,
) {
    traffic.phase.send_replace(Phase::Calm);
    for writer in writers {
        RUNTIME.block_on(writer).expect("a writer ends");
    }
    let deadline = Instant::now() + PATIENCE * 3;
    while traffic.counts.calm.load(Ordering::Relaxed) < clients.len() as u64 {
        assert!(
            Instant::now() < deadline,
            "clients do not calm down: {:?}",
            traffic.counts
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    let until = RUNTIME.block_on(traffic.commit(all_operations()));
    stand.read_log();
    traffic
        .phase
        .send_replace(Phase::Ending(Arc::new(end(stand, begun, until))));
    for client in clients {
        RUNTIME.block_on(client).expect("a client lives to the end");
    }
    (0..stand.gateways.len()).for_each(|which| stand.leave_behind(which));
}

/// What there is to be seen in the end.
fn end(stand: &Stand, begun: Instant, until: u64) -> End {
    let mut newest: HashMap<Watched, u64> = HashMap::new();
    for entry in &stand.entries {
        if let Body::Change { watched, .. } = &entry.body {
            newest.insert(watched.clone(), event_id(entry.revision, RECORD_SLOT));
            newest.insert(
                Watched::table(&watched.table),
                event_id(entry.revision, TABLE_SLOT),
            );
        }
    }
    assert!(
        newest.len() >= TABLES.len() * KEYS as usize,
        "everything changed in the end"
    );
    let mut active: HashMap<String, Vec<Arc<str>>> = HashMap::new();
    for entry in &stand.entries {
        match &entry.body {
            Body::Subscribed { session, spelling } => {
                active
                    .entry(session.clone())
                    .or_default()
                    .push(spelling.as_str().into());
            }
            Body::Unsubscribed { session, spelling_of } => {
                let ended = Watched::of_uri(spelling_of);
                let uris = active.entry(session.clone()).or_default();
                uris.retain(|uri| Watched::of_uri(uri) != ended);
            }
            Body::Opened { .. }
            | Body::Closed { .. }
            | Body::Deleted { .. }
            | Body::Change { .. }
            | Body::Other => {}
        }
    }
    End {
        until,
        begun,
        newest,
        active,
    }
}

/// Looks at everything that has been seen so far.
pub fn look(stand: &mut Stand, traffic: &Traffic, is_whole: bool) -> (Vec<Violation>, Vec<History>, Ledger) {
    // First what was seen, then what can be said of it.
    let histories: Vec<History> = traffic
        .histories
        .lock()
        .unwrap()
        .iter()
        .map(|history| history.lock().unwrap().clone())
        .collect();
    let commits = traffic.commits.lock().unwrap().clone();
    stand.read_log();
    let bounds = Bounds {
        catch_up: CATCH_UP,
        memory_bytes: MEMORY_BYTES,
    };
    let ledger = Ledger::new(
        stand.entries.clone(),
        commits,
        stand.compactions.clone(),
        stand.memory.clone(),
        bounds,
        is_whole,
    );
    // Where no session came of it, there is nothing that the log could say.
    let known: Vec<History> = histories
        .into_iter()
        .filter(|history| !matches!(&history.kind, Kind::Session { id, .. } if id.is_empty()))
        .collect();
    (violations(&ledger, &known), known, ledger)
}
