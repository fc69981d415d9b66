//! Where a run took place: machine, commit, date; and which core runs what.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What a report says about its origin.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The UTC date, as 2026-12-01.
    pub date: String,
    /// The commit of the working directory, with `+` behind it if files differ from it.
    pub commit: String,
    /// The command line.
    pub command: String,
    /// Processor model, cores, kernel.
    pub machine: String,
}

impl Origin {
    /// Reads it all; what cannot be found out is said to be unknown.
    pub fn read() -> Origin {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        Origin {
            date: date(seconds / 86_400),
            commit: commit().unwrap_or_else(|| "unknown".into()),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            machine: machine(),
        }
    }
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let differs = !git(&["status", "--porcelain"])?.is_empty();
    Some(if differs { commit + "+" } else { commit })
}

fn machine() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}

/// The Gregorian date of a day since 1970-01-01.
fn date(mut days: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for month_days in [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < month_days {
            break;
        }
        days -= month_days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// Which core the server under test has, and which one everything else.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// Takes the first two cores that this process may use, and moves the calling thread (with all it starts) to the second.
    /// `None` if there is only one: nothing is pinned then.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn claim() -> anyhow::Result<Option<Cores>> {
        let allowed = sched_getaffinity(None).context("cannot read the cores of this process")?;
        let mut usable = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let (Some(server), Some(load)) = (usable.next(), usable.next()) else {
            return Ok(None);
        };
        move_to(load)?;
        Ok(Some(Cores { server, load }))
    }

    /// Calls `start` with the calling thread on the server's core: a process that it starts stays there.
    ///
    /// # Errors
    /// The system refuses it, or `start` fails.
    pub fn on_server_core<T>(self, start: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        move_to(self.server)?;
        let started = start();
        move_to(self.load)?;
        started
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "server under test on core {}, load and feed service on core {}",
            self.server, self.load
        )
    }
}

fn move_to(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot move to core {core}"))
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_788, "2026-12-01"),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}
