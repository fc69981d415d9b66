//! Commits of many writers, beside SQLite alone in a loop over the same rows.

use std::path::Path;

use anyhow::ensure;

use super::plan::Plan;
use super::service::{FeedService, runtime, write};
use super::sqlite::SqliteLoop;
use crate::ratios::{Figure, Report};

/// What the service logs for each group of commits, at this level.
const GROUP_LOG: &str = "feedsvc::commit::committer=trace,info";

/// Takes the row's samples.
///
/// # Errors
/// Something does not work.
pub fn measure(plan: &Plan, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let group = group_size(plan, folder)?;
    let service = FeedService::start(plan, folder, &[], "info")?;
    runtime.block_on(service.fill())?;
    write(plan, &runtime, &service, plan.writers)?;
    let mut alone = SqliteLoop::open(folder)?;
    alone.run(plan.sample(), group)?;

    let (mut service_rates, mut alone_rates, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..plan.pairs {
        let commits = write(plan, &runtime, &service, plan.writers)?;
        let rate = alone.run(plan.sample(), group)?;
        eprintln!(
            "commits {}/{}: {:.0}/s, {:.1} µs CPU each; SQLite {rate:.0}/s in transactions of {group}",
            pair + 1,
            plan.pairs,
            commits.rate(),
            commits.cpu_us()
        );
        service_rates.push(commits.rate());
        alone_rates.push(rate);
        cpu.push(commits.cpu_us());
    }
    report.add(Figure {
        name: format!(
            "commits, {} writers / SQLite alone, transactions of {group}",
            plan.writers
        ),
        unit: "commits/s",
        ours: service_rates,
        theirs: alone_rates,
        at_least: Some(0.8),
        at_most: None,
    });
    report.note(format!(
        "CPU of the service per commit, all threads: {}",
        crate::ratios::summary(&cpu, "µs")
    ));
    report.note(format!(
        "a group of the service had {group} commits on average, counted in a run of its own"
    ));
    Ok(())
}

/// Counts how many commits share a transaction, in a run that logs each.
fn group_size(plan: &Plan, folder: &Path) -> anyhow::Result<usize> {
    let runtime = runtime()?;
    let service = FeedService::start(plan, folder, &[], GROUP_LOG)?;
    runtime.block_on(service.fill())?;
    let commits = write(plan, &runtime, &service, plan.writers)?;
    let groups = service
        .process
        .whole_log()
        .lines()
        .filter(|line| line.contains("committing a group"))
        .count();
    ensure!(groups > 10, "the service does not log its groups");
    let size = commits.count as f64 / groups as f64;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 256"
    )]
    Ok(size.round() as usize)
}
