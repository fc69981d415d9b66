//! Samples a server: publishes changes, waits for the frames, and reads its CPU time before and after.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::process::ServerProcess;
use super::publish::{Published, Publisher};
use super::server::{Programs, Server, Started};
use crate::load::fleet::{Expected, Fleet};
use crate::load::frames::Tally;
use crate::load::open::open_sessions;
use crate::measure::cpu::{CpuReading, resident_bytes};

/// How long all frames of a sample may take.
const FRAMES_TIMEOUT: Duration = Duration::from_secs(60);

/// Without a byte for so long, a server has no more to say; a frame too many is found in this time.
const QUIET: Duration = Duration::from_millis(20);

/// A running server with open sessions.
pub struct Subject {
    /// Which one it is.
    pub server: Server,
    /// Resident memory per session, right after all were opened.
    pub session_bytes: f64,
    process: ServerProcess,
    fleet: Fleet,
    publisher: Publisher,
    /// The feed service, ended after the gateway.
    _behind: Option<ServerProcess>,
}

/// What one sample brought.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Frames that all sessions got together.
    pub frames: u64,
    /// CPU time of the server under test.
    pub cpu: Duration,
    /// From the first change's sending to the last frame.
    pub wall: Duration,
    /// One per publishing: from its answer to the last session's frame, in milliseconds. Below zero where the frame was first.
    pub after_answer_ms: Vec<f64>,
    /// The same from its sending.
    pub after_sending_ms: Vec<f64>,
}

impl Sample {
    /// CPU microseconds per delivered frame, which is CPU seconds per million.
    pub fn cpu_per_frame_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.frames as f64
    }
}

impl Subject {
    /// Starts a server and opens its sessions.
    ///
    /// # Errors
    /// The server does not start, or a session cannot be opened.
    pub fn start(server: Server, programs: &Programs, session_count: usize) -> anyhow::Result<Subject> {
        let started = server
            .start(programs)
            .with_context(|| format!("cannot start {server}"))?;
        let Started {
            process,
            behind,
            address,
            door,
            publisher,
        } = started;
        let before_bytes = resident_bytes(process.pid())?;
        let streams = open_sessions(address, door, session_count).with_context(|| server.to_string())?;
        let mut fleet = Fleet::new(streams)?;
        fleet.read_until_quiet(QUIET)?;
        let added_bytes = resident_bytes(process.pid())?.saturating_sub(before_bytes);
        let session_bytes = added_bytes as f64 / session_count as f64;
        Ok(Subject {
            server,
            session_bytes,
            process,
            fleet,
            publisher,
            _behind: behind,
        })
    }

    /// Publishes `publishings` times `changes` changes, each time after every session has all of the time before and `pause`
    /// has passed.
    ///
    /// # Errors
    /// A session did not get exactly what was published: the run is no result.
    pub fn sample(&mut self, publishings: u32, changes: u32, pause: Duration) -> anyhow::Result<Sample> {
        self.try_sample(publishings, changes, pause)
            .with_context(|| format!("{}: {}", self.server, self.process.log()))
    }

    fn try_sample(&mut self, publishings: u32, changes: u32, pause: Duration) -> anyhow::Result<Sample> {
        self.fleet.read_until_quiet(QUIET)?;
        self.fleet.reset();
        let sessions = self.fleet.len() as u64;
        let mut published = Vec::new();
        let mut last_frames = Vec::new();

        let before = CpuReading::take(self.process.pid())?;
        for done in 1..=publishings {
            self.publisher.begin(changes)?;
            let frames = u64::from(done) * u64::from(changes) * sessions;
            let last_frame = self.fleet.read_until(frames, FRAMES_TIMEOUT);
            // Where nothing was published, that is why nothing came.
            published.push(self.publisher.end()?);
            last_frames.push(last_frame?);
            thread::sleep(pause);
        }
        let cpu = CpuReading::take(self.process.pid())?.since(&before);

        self.fleet.read_until_quiet(QUIET)?;
        self.fleet.check(&expected(&published, publishings * changes))?;
        let since = |moment: fn(&Published) -> Instant| {
            let pairs = last_frames.iter().zip(&published);
            pairs
                .map(|(last, published)| signed_ms(moment(published), *last))
                .collect::<Vec<f64>>()
        };
        let wall = match (published.first(), last_frames.last()) {
            (Some(first), Some(last)) => last.saturating_duration_since(first.sent),
            _ => Duration::ZERO,
        };
        Ok(Sample {
            frames: u64::from(publishings) * u64::from(changes) * sessions,
            cpu,
            wall,
            after_answer_ms: since(|published| published.answered),
            after_sending_ms: since(|published| published.sent),
        })
    }
}

fn expected(published: &[Published], changes: u32) -> Expected {
    let mut tally = Tally::default();
    for id in published
        .iter()
        .flat_map(|published| published.ids.iter().flatten())
    {
        tally.add(*id);
    }
    let numbered = published.iter().all(|published| published.ids.is_some());
    if numbered {
        Expected::Ids(tally)
    } else {
        Expected::Count(u64::from(changes))
    }
}

fn signed_ms(from: Instant, to: Instant) -> f64 {
    let forward = to.saturating_duration_since(from);
    let backward = from.saturating_duration_since(to);
    (forward.as_secs_f64() - backward.as_secs_f64()) * 1e3
}
