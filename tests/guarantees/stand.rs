//! The services of a run, and what breaks them: gateways are killed and paused, the feed service is killed, wires are cut, the log is
//! compacted, while writers and clients go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::history::{Compaction, Entry, Memory};
use super::ledger::read_entry;
use super::metrics::Counters;
use super::traffic::{Traffic, all_operations};
use crate::harness::random::Random;
use crate::harness::stack::{Feed, Gateway};
use crate::harness::truth::Truth;
use crate::harness::wire::{Cut, Proxy};
use crate::harness::{PATIENCE, RUNTIME, eventually};

/// Missed notices that are sent singly. Few, so that who was away for some seconds is folded for.
pub const CATCH_UP: usize = 80;

/// By how much the memory of a gateway may grow: what the rings may take, and for each of some 250 streams (half of them left open
/// for a moment by takeovers) its connection, what waits in it, and a catch-up. It takes 5 to 8 MiB.
pub const MEMORY_BYTES: u64 = 32 << 20;

const FEED_OPTIONS: [(&str, &str); 2] = [("--log-floor", "1ms"), ("--ring-bytes", "64KiB")];

/// Small rings, so that the log is needed; moments instead of minutes.
const GATEWAY_OPTIONS: [(&str, &str); 7] = [
    // As behind a balancer: listens are told of canonical URIs.
    ("--set", "public_url=http://any"),
    ("--set", "ring.bytes=64KiB"),
    ("--set", "stream.frames_bytes=256KiB"),
    ("--set", "replay.catch_up=80"),
    ("--set", "stream.bookmark_interval=1s"),
    ("--pending", "300"),
    ("--write-timeout", "1s"),
];

/// One thing that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KillGateway,
    PauseGateway,
    KillFeed,
    CutWire,
    StallWire,
    Compact,
    /// Slow clients stop reading while much is written.
    Burst,
}

/// What happens in a run, each so often.
const SCRIPT: [(Fault, usize); 7] = [
    (Fault::KillGateway, 2),
    (Fault::PauseGateway, 3),
    (Fault::KillFeed, 2),
    (Fault::CutWire, 2),
    (Fault::StallWire, 1),
    (Fault::Compact, 3),
    (Fault::Burst, 1),
];

/// Returns what happens in a run, in an order of its own.
pub fn script(random: &mut Random) -> Vec<Fault> {
    let mut script: Vec<Fault> = SCRIPT
        .iter()
        .flat_map(|(fault, times)| std::iter::repeat_n(*fault, *times))
        .collect();
    for last in (1..script.len()).rev() {
        script.swap(last, random.below(last as u64 + 1) as usize);
    }
    script
}

/// One feed service, and gateways that reach it through wires of their own.
pub struct Stand {
    // Dropped in this order: the directory goes last.
    pub gateways: Vec<Gateway>,
    wires: Vec<Proxy>,
    pub feed: Feed,
    _directory: TempDir,
    /// The log, which is read before it is compacted.
    pub entries: Vec<Entry>,
    pub compactions: Vec<Compaction>,
    pub memory: Vec<Memory>,
    baselines: Vec<u64>,
    /// What the gateways counted, those of processes that are gone too.
    pub counters: Counters,
    /// How often what was done.
    pub done: BTreeMap<String, u64>,
}

impl Stand {
    /// Starts them, with these variables in their environment.
    pub fn start(gateway_count: usize, variables: &[(&str, &str)]) -> Stand {
        let directory = TempDir::new().expect("a temporary directory");
        let feed = Feed::start_in(variables, directory.path(), &FEED_OPTIONS);
        let wires: Vec<Proxy> = (0..gateway_count).map(|_| Proxy::to(feed.address)).collect();
        let gateways: Vec<Gateway> = wires
            .iter()
            .map(|wire| Gateway::start_in(variables, wire.address, &GATEWAY_OPTIONS))
            .collect();
        gateways.iter().for_each(Gateway::wait_until_ready);
        let baselines = gateways
            .iter()
            .map(|gateway| memory_peak(gateway.service.id()))
            .collect();
        Stand {
            gateways,
            wires,
            feed,
            _directory: directory,
            entries: Vec::new(),
            compactions: Vec::new(),
            memory: Vec::new(),
            baselines,
            counters: Counters::default(),
            done: BTreeMap::new(),
        }
    }

    pub fn truth(&self) -> Truth {
        Truth::of(self.feed.address)
    }

    /// Breaks one thing and mends it; what follows from that is for the services to overcome.
    pub fn break_something(&mut self, fault: Fault, traffic: &Arc<Traffic>, random: &mut Random) {
        self.note(&format!("{fault:?}"), 1);
        let which = random.below(self.gateways.len() as u64) as usize;
        match fault {
            Fault::KillGateway => self.kill_gateway(which),
            Fault::PauseGateway => {
                self.gateways[which].service.pause();
                // As long as it takes until others hold what it held; that is what is tried.
                wait_for_commits(traffic, 20 + random.below(20) as usize);
                self.gateways[which].service.resume();
            }
            Fault::KillFeed => {
                let writers = write_at_once(traffic, 8);
                self.feed.kill();
                // They are tried again until they are acknowledged, by the key that each has.
                let interrupted = traffic.progress().1;
                self.note(
                    "commits that a kill of the feed service interrupted",
                    interrupted as u64,
                );
                self.feed.restart();
                writers.wait();
            }
            Fault::CutWire => {
                let how = [Cut::Reset, Cut::End][random.below(2) as usize];
                self.wires[which].cut(how);
            }
            Fault::StallWire => {
                self.wires[which].set(|weather| weather.stalled_down = true);
                wait_for_commits(traffic, 20);
                self.wires[which].cut(Cut::Reset);
                self.wires[which].set(|weather| weather.stalled_down = false);
            }
            Fault::Compact => self.compact(),
            Fault::Burst => {
                traffic.stall.send_replace(true);
                for _ in 0..5 {
                    RUNTIME.block_on(traffic.commit(all_operations()));
                }
                // Who does not read is let go in the end, on whichever gateway.
                eventually("a slow stream is ended", || {
                    let mut counters = Counters::default();
                    self.gateways
                        .iter()
                        .for_each(|gateway| counters.add(gateway.admin));
                    match counters.sum("tidegate_stream_ends_total", "reason=\"slow\"") {
                        0.0 => Err("none".into()),
                        _ => Ok(()),
                    }
                });
                traffic.stall.send_replace(false);
            }
        }
    }

    /// Kills a gateway and starts it again where it was.
    pub fn kill_gateway(&mut self, which: usize) {
        self.leave_behind(which);
        self.gateways[which].kill();
        self.gateways[which].restart();
        self.baselines[which] = memory_peak(self.gateways[which].service.id());
    }

    /// Reads the log to its head.
    pub fn read_log(&mut self) {
        let after = self.entries.last().map_or(0, |entry| entry.revision);
        let entries = self.truth().log_after(after);
        self.entries.extend(entries.into_iter().map(read_entry));
    }

    fn compact(&mut self) {
        self.read_log();
        let until = self.entries.last().map_or(0, |entry| entry.revision);
        let started = Instant::now();
        let oldest = self.truth().compact_until(until);
        self.compactions.push(Compaction {
            started,
            ended: Instant::now(),
            oldest,
        });
    }

    /// Takes what a gateway would take with it: its counters, and how much memory it took.
    pub fn leave_behind(&mut self, which: usize) {
        let gateway = &self.gateways[which];
        self.counters.add(gateway.admin);
        self.memory.push(Memory {
            who: format!("gateway {which}"),
            baseline_bytes: self.baselines[which],
            peak_bytes: memory_peak(gateway.service.id()),
        });
    }

    fn note(&mut self, what: &str, times: u64) {
        *self.done.entry(what.to_owned()).or_default() += times;
    }
}

/// Waits until so many more commits were acknowledged.
pub fn wait_for_commits(traffic: &Traffic, count: usize) {
    let (wanted, deadline) = (traffic.progress().0 + count, Instant::now() + PATIENCE);
    while traffic.progress().0 < wanted {
        assert!(Instant::now() < deadline, "no commits in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Commits that were begun together.
struct Writers(Vec<tokio::task::JoinHandle<u64>>);

impl Writers {
    fn wait(self) {
        for writer in self.0 {
            RUNTIME
                .block_on(writer)
                .expect("a commit is acknowledged in the end");
        }
    }
}

fn write_at_once(traffic: &Arc<Traffic>, count: usize) -> Writers {
    let writers = (0..count).map(|_| {
        let traffic = Arc::clone(traffic);
        RUNTIME.spawn(async move {
            traffic
                .commit(all_operations().into_iter().take(9).collect())
                .await
        })
    });
    let writers = Writers(writers.collect());
    // The first of them is acknowledged a moment later at the earliest, and the others after it.
    let deadline = Instant::now() + PATIENCE;
    while traffic.progress().1 < count && Instant::now() < deadline {
        std::thread::yield_now();
    }
    writers
}

/// Returns the most memory that a process has had so far, in bytes.
fn memory_peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}
