//! What a killed gateway costs: thousands of streams resume on another instance, beside what it costs to open as many sessions.
//!
//! A sample has services of its own: sessions are opened on one gateway (*theirs*), which is then killed; changes are made; every
//! stream is opened again on the other gateway after the id that it has, until each has everything that it missed and one change
//! more (*ours*). It counts only if every session got exactly what it had to. Of more missed changes than `replay.catch_up`, which
//! are folded, each session gets the newest.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;

use crate::load::fleet::{Expected, Fleet};
use crate::load::frames::Tally;
use crate::load::open::{open_mcp_sessions, resume_mcp_sessions};
use crate::ratios::{Figure, Report};
use crate::subject::process::ServerProcess;
use crate::subject::publish::Publisher;
use crate::subject::server::SCHEMA;

/// How much a resume may cost, in openings.
const BAR: f64 = 2.0;
/// More missed changes than this are folded (`replay.catch_up`).
const CATCH_UP: u32 = 1_000;
/// How long all frames may take.
const FRAMES_TIMEOUT: Duration = Duration::from_secs(60);
/// Without a byte for so long, a server has no more to say.
const QUIET: Duration = Duration::from_millis(50);

/// Measures how long streams take to resume on another gateway after a kill, as ratios to opening as many sessions.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-resume")]
pub struct Plan {
    /// The gateway's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub gateway: Option<PathBuf>,

    /// The feed service's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub feedsvc: Option<PathBuf>,

    /// How many streams resume.
    #[arg(long, default_value_t = 5_000)]
    pub sessions: usize,

    /// How many changes they miss, a row for each.
    #[arg(long, value_delimiter = ',', default_values = ["0", "10", "2000"])]
    pub missed: Vec<u32>,

    /// How many samples each row has. A bar is judged from nine on.
    #[arg(long, default_value_t = 9)]
    pub pairs: usize,

    /// Writes the report into this folder too, as `<date>-<name>.md`.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// The report's name.
    #[arg(long, default_value = "resume")]
    pub name: String,

    /// Ends with status 2 if a bar is missed.
    #[arg(long)]
    pub enforce: bool,
}

/// Runs everything that the plan asks for.
///
/// # Errors
/// Something does not work, or a session did not get exactly what it missed: there is no result then.
pub fn run(plan: &Plan) -> anyhow::Result<Report> {
    let folder = std::env::temp_dir().join(format!("tidegate-bench-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let outcome = measure(plan, &folder);
    // Leftovers in the folder for temporary files do no harm.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let mut report = Report::new("Resume after a kill", false);
    let mut figures: Vec<Figure> = plan
        .missed
        .iter()
        .map(|missed| Figure {
            name: format!(
                "{} streams resume with {missed} changes missed / initialize, GET and subscribe of as many",
                plan.sessions
            ),
            unit: "s",
            ours: Vec::new(),
            theirs: Vec::new(),
            at_least: None,
            at_most: Some(BAR),
        })
        .collect();
    for sample in 0..plan.pairs {
        for (missed, figure) in plan.missed.iter().zip(&mut figures) {
            let (resumed, opened) = take(plan, folder, *missed)?;
            eprintln!(
                "{}/{}: {missed} missed: resumed in {:.2} s, opened in {:.2} s",
                sample + 1,
                plan.pairs,
                resumed.as_secs_f64(),
                opened.as_secs_f64()
            );
            figure.ours.push(resumed.as_secs_f64());
            figure.theirs.push(opened.as_secs_f64());
        }
    }
    for figure in figures {
        report.add(figure);
    }
    Ok(report)
}

/// Returns how long the streams took to resume, and how long the sessions took to open.
fn take(plan: &Plan, folder: &Path, missed: u32) -> anyhow::Result<(Duration, Duration)> {
    let services = Services::start(plan, folder)?;
    let begin = Instant::now();
    let sessions = open_mcp_sessions(services.first_address, plan.sessions)?;
    let opened = begin.elapsed();

    let (ids, streams): (Vec<_>, Vec<_>) = sessions.into_iter().unzip();
    let mut fleet = Fleet::new(streams)?;
    let last = publish(&services.publisher, 1)?;
    fleet.read_until(plan.sessions as u64, FRAMES_TIMEOUT)?;
    let last_id = *last.last().context("nothing was published")?;
    services.first.kill()?;
    drop(fleet);

    let mut expected = match missed {
        0 => Vec::new(),
        count => publish(&services.publisher, count)?,
    };
    if missed > CATCH_UP {
        expected.drain(..expected.len() - 1);
    }

    let begin = Instant::now();
    let streams = resume_mcp_sessions(services.second_address, &ids, last_id)?;
    let mut fleet = Fleet::new(streams)?;
    // That one which is read ahead with the head was counted by nobody yet.
    expected.extend(publish(&services.publisher, 1)?);
    fleet.read_until(plan.sessions as u64 * expected.len() as u64, FRAMES_TIMEOUT)?;
    let resumed = begin.elapsed();

    fleet.read_until_quiet(QUIET)?;
    let mut tally = Tally::default();
    for id in expected {
        tally.add(id);
    }
    fleet.check(&Expected::Ids(tally))?;
    Ok((resumed, opened))
}

fn publish(publisher: &Publisher, changes: u32) -> anyhow::Result<Vec<u64>> {
    publisher.begin(changes)?;
    publisher
        .end()?
        .ids
        .context("the feed service numbers its changes")
}

/// A feed service and two gateways.
struct Services {
    publisher: Publisher,
    first: ServerProcess,
    first_address: SocketAddr,
    _second: ServerProcess,
    second_address: SocketAddr,
    _feed: ServerProcess,
}

impl Services {
    fn start(plan: &Plan, folder: &Path) -> anyhow::Result<Services> {
        let number = std::fs::read_dir(folder)?.count();
        let data = folder.join(format!("data-{number}"));
        std::fs::create_dir_all(&data)?;
        let schema = folder.join("schema.graphql");
        std::fs::write(&schema, SCHEMA)?;
        let arguments = [
            "serve".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--data={}", data.display()),
            format!("--schema={}", schema.display()),
        ];
        let feed = ServerProcess::start("feedsvc", &program(&plan.feedsvc, "feedsvc")?, &arguments, folder)?;
        let address = feed.ready_value("listen")?.to_owned();
        let gateway = || -> anyhow::Result<(ServerProcess, SocketAddr)> {
            let arguments = [
                "serve".to_owned(),
                format!("--feed=http://{address}"),
                "--application=127.0.0.1:0".to_owned(),
                "--admin=127.0.0.1:0".to_owned(),
            ];
            let process =
                ServerProcess::start("gateway", &program(&plan.gateway, "gateway")?, &arguments, folder)?;
            let address = process.ready_value("application")?.parse()?;
            Ok((process, address))
        };
        let (first, first_address) = gateway()?;
        let (second, second_address) = gateway()?;
        Ok(Services {
            publisher: Publisher::commits(&address)?,
            first,
            first_address,
            _second: second,
            second_address,
            _feed: feed,
        })
    }
}

fn program(given: &Option<PathBuf>, name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let path = given.clone().unwrap_or_else(|| own.with_file_name(name));
    ensure!(
        path.is_file(),
        "there is no program {}: build it, or give its path",
        path.display()
    );
    Ok(path)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Plan;

    #[test]
    fn the_command_line_is_consistent() {
        Plan::command().debug_assert();
    }
}
