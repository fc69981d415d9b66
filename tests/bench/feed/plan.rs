//! The command line: what is run, how often, and where the program is.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Parser, ValueEnum};

/// Measures the feed service beside SQLite alone and beside a bare gRPC stream, as ratios of interleaved pairs.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-feed")]
pub struct Plan {
    /// The feed service's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub feedsvc: Option<PathBuf>,

    /// Which rows are measured.
    #[arg(long, value_delimiter = ',', default_values = ["commits", "ring", "store", "watches"])]
    pub rows: Vec<Row>,

    /// How many pairs of samples each row has. A bar is judged from nine on.
    #[arg(long, default_value_t = 9)]
    pub pairs: usize,

    /// How long a sample of commits takes, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    pub sample_ms: u64,

    /// How many writers commit at once.
    #[arg(long, default_value_t = 64)]
    pub writers: usize,

    /// How many connections the writers share.
    #[arg(long, default_value_t = 4)]
    pub connections: usize,

    /// How many changes a watch reads in a sample.
    #[arg(long, default_value_t = 300_000)]
    pub changes: usize,

    /// How many watches on other tables are open.
    #[arg(long, default_value_t = 1_000)]
    pub watches: usize,

    /// Where the stores are made [default: the folder for temporary files]. It has to be on a disk.
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Writes the report into this folder too, as `<date>-<name>.md`.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// The report's name.
    #[arg(long, default_value = "feed")]
    pub name: String,

    /// Ends with status 2 if a bar is missed.
    #[arg(long)]
    pub enforce: bool,

    /// A smoke run: short samples, one pair, no verdicts.
    #[arg(long)]
    pub quick: bool,

    /// Serves a recorded stream instead of measuring: the bare server of the rows `ring` and `store`.
    #[arg(long, value_name = "FILE", hide = true)]
    pub bare: Option<PathBuf>,
}

/// A row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// Commits of many writers, beside SQLite alone.
    Commits,
    /// One watch from the ring, beside a bare stream.
    Ring,
    /// One watch from the store, beside a bare stream.
    Store,
    /// CPU per commit with watches on other tables, beside none.
    Watches,
}

impl Plan {
    /// Reads the command line.
    pub fn read() -> Plan {
        let plan = Plan::parse();
        if plan.quick { plan.shrunk() } else { plan }
    }

    fn shrunk(self) -> Plan {
        Plan {
            pairs: 1,
            sample_ms: 200,
            changes: 20_000,
            watches: 50,
            ..self
        }
    }

    /// Returns how long a sample of commits takes.
    pub fn sample(&self) -> Duration {
        Duration::from_millis(self.sample_ms)
    }

    /// Returns the feed service's program.
    ///
    /// # Errors
    /// There is none.
    pub fn program(&self) -> anyhow::Result<PathBuf> {
        let own = std::env::current_exe()?;
        let path = self
            .feedsvc
            .clone()
            .unwrap_or_else(|| own.with_file_name("feedsvc"));
        ensure!(
            path.is_file(),
            "there is no program {}: build it, or give its path",
            path.display()
        );
        Ok(path)
    }
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
