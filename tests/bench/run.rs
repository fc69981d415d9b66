//! Runs a plan: starts the servers, takes samples in turn, checks each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::measure::machine::{Cores, Origin};
use crate::plan::{Mode, Plan, Size};
use crate::report::Report;
use crate::subject::server::{Programs, Server};
use crate::subject::{Sample, Subject};

/// Before the first sample each server runs hot: allocations, connections and branch predictors.
const WARM_UP: [Size; 2] = [
    Size {
        publishings: 1,
        changes: 50,
        pause: Duration::ZERO,
    },
    Size {
        publishings: 10,
        changes: 1,
        pause: Duration::ZERO,
    },
];

/// All samples of one mode with so many sessions.
#[derive(Clone, Debug)]
pub struct Series {
    /// How changes were made.
    pub mode: Mode,
    /// How many sessions each server had.
    pub sessions: usize,
    /// By server, in the order they were taken: the n-th of two servers are neighbours in time.
    pub samples: Vec<(Server, Vec<Sample>)>,
}

impl Series {
    fn new(mode: Mode, sessions: usize) -> Series {
        Series {
            mode,
            sessions,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, server: Server, sample: Sample) {
        match self.samples.iter_mut().find(|(known, _)| *known == server) {
            Some((_, samples)) => samples.push(sample),
            None => self.samples.push((server, vec![sample])),
        }
    }

    /// Returns a server's samples; none if it did not run.
    pub fn of(&self, server: Server) -> &[Sample] {
        self.samples
            .iter()
            .find(|(known, _)| *known == server)
            .map_or(&[], |(_, samples)| samples)
    }
}

/// What a session costs a server while nothing happens.
#[derive(Clone, Copy, Debug)]
pub struct IdleMemory {
    /// Which server.
    pub server: Server,
    /// How many sessions it had.
    pub sessions: usize,
    /// Resident bytes per session.
    pub bytes: f64,
}

/// Runs everything that the plan asks for.
///
/// # Errors
/// Something does not work, or a session did not get exactly what was published: there is no result then.
pub fn run(plan: &Plan) -> anyhow::Result<Report> {
    let origin = Origin::read();
    let cores = Cores::claim()?;
    let folder = std::env::temp_dir().join(format!("tidegate-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let outcome = programs(plan, &folder, cores).and_then(|programs| {
        let mut report = Report::new(origin, cores, plan);
        for sessions in &plan.sessions {
            measure(plan, &programs, *sessions, &mut report)?;
        }
        Ok(report)
    });
    // Leftovers in the folder for temporary files do no harm.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn measure(plan: &Plan, programs: &Programs, sessions: usize, report: &mut Report) -> anyhow::Result<()> {
    let mut series: Vec<Series> = plan
        .modes()
        .into_iter()
        .map(|mode| Series::new(mode, sessions))
        .collect();
    for group in groups(&plan.servers) {
        let mut subjects = Vec::new();
        for server in group {
            eprintln!("{server}: opening {sessions} sessions");
            let subject = Subject::start(server, programs, sessions)?;
            report.memory.push(IdleMemory {
                server,
                sessions,
                bytes: subject.session_bytes,
            });
            subjects.push(subject);
        }
        for subject in &mut subjects {
            for size in WARM_UP {
                take(subject, size)?;
            }
        }
        for series in &mut series {
            interleave(plan, series, &mut subjects)?;
        }
    }
    report.series.extend(series);
    Ok(())
}

/// The servers that are compared run side by side; each of the others runs alone, with all open files to itself.
fn groups(servers: &[Server]) -> Vec<Vec<Server>> {
    let (pair, others): (Vec<Server>, Vec<Server>) = servers
        .iter()
        .partition(|server| [Server::Gateway, Server::Floor].contains(server));
    let others = others.into_iter().map(|server| vec![server]);
    [pair]
        .into_iter()
        .filter(|pair| !pair.is_empty())
        .chain(others)
        .collect()
}

fn interleave(plan: &Plan, series: &mut Series, subjects: &mut [Subject]) -> anyhow::Result<()> {
    let (mode, sessions) = (series.mode, series.sessions);
    for round in 0..plan.pairs {
        for subject in &mut *subjects {
            let server = subject.server;
            let count = plan.sample_count(server);
            if round >= count {
                continue;
            }
            let sample = take(subject, plan.size(mode, server, sessions))?;
            eprintln!(
                "{mode:?} {sessions} {}/{count}: {server} {:.2} µs CPU per frame, {} frames in {:.2} s",
                round + 1,
                sample.cpu_per_frame_us(),
                sample.frames,
                sample.wall.as_secs_f64(),
            );
            series.add(server, sample);
        }
    }
    Ok(())
}

fn take(subject: &mut Subject, size: Size) -> anyhow::Result<Sample> {
    subject.sample(size.publishings, size.changes, size.pause)
}

fn programs(plan: &Plan, folder: &Path, cores: Option<Cores>) -> anyhow::Result<Programs> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let beside = |given: &Option<PathBuf>, name: &str, needed_by: &[Server]| -> anyhow::Result<PathBuf> {
        let path = given.clone().unwrap_or_else(|| own.with_file_name(name));
        let needed = plan.servers.iter().any(|server| needed_by.contains(server));
        ensure!(
            !needed || path.is_file(),
            "there is no program {}: build it, or give its path",
            path.display()
        );
        Ok(path)
    };
    Ok(Programs {
        gateway: beside(&plan.gateway, "gateway", &[Server::Gateway])?,
        feedsvc: beside(&plan.feedsvc, "feedsvc", &[Server::Gateway])?,
        floor: beside(&plan.floor, "bench-floor", &[Server::Floor, Server::FloorBytes])?,
        rmcp: beside(&plan.rmcp, "bench-rmcp", &[Server::Rmcp])?,
        folder: folder.to_owned(),
        cores,
    })
}
