//! The benchmark of the feed service: commits beside SQLite alone, a watch beside a bare gRPC stream of the same bytes, and what
//! open watches on other tables cost a commit.
//!
//! Each row takes its samples in pairs, one of each side right after the other, and reports the median of their ratios: a machine
//! that is slow today is slow for both.
//!
//! Reading order: [`plan`] says what is run; [`service`] starts a feed service and writes to it, by [`writer`]; [`commits`] with [`sqlite`],
//! [`watch`] with [`bare`], and [`watches`] are the rows.

pub mod plan;

pub mod service;
pub mod writer;

pub mod commits;
pub mod sqlite;

pub mod bare;
pub mod watch;

pub mod watches;

use anyhow::Context as _;

use crate::ratios::Report;
use plan::{Plan, Row};

/// Runs everything that the plan asks for.
///
/// # Errors
/// Something does not work: there is no result then.
pub fn run(plan: &Plan) -> anyhow::Result<Report> {
    let folder = plan
        .folder
        .clone()
        .unwrap_or_else(std::env::temp_dir)
        .join(format!("tidegate-bench-feed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let outcome = measure(plan, &folder);
    // Leftovers in the folder for temporary files do no harm.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn measure(plan: &Plan, folder: &std::path::Path) -> anyhow::Result<Report> {
    let mut report = Report::new("Feed service", plan.quick);
    for row in &plan.rows {
        eprintln!("{row:?}");
        match row {
            Row::Commits => commits::measure(plan, folder, &mut report)?,
            Row::Ring => watch::measure(plan, folder, watch::Source::Ring, &mut report)?,
            Row::Store => watch::measure(plan, folder, watch::Source::Store, &mut report)?,
            Row::Watches => watches::measure(plan, folder, &mut report)?,
        }
    }
    Ok(report)
}
