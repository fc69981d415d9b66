//! The command line: what is run, how often, and where the programs are.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::subject::server::Server;

/// Measures the gateway beside a plain SSE server and an rmcp server, as ratios of interleaved pairs.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench")]
pub struct Plan {
    /// The gateway's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub gateway: Option<PathBuf>,

    /// The feed service's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub feedsvc: Option<PathBuf>,

    /// The floor's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub floor: Option<PathBuf>,

    /// The rmcp server's program [default: beside this one].
    #[arg(long, value_name = "PATH")]
    pub rmcp: Option<PathBuf>,

    /// Which servers run.
    #[arg(long, value_delimiter = ',', default_values = ["gateway", "floor", "floor-bytes", "rmcp"])]
    pub servers: Vec<Server>,

    /// Which rows are measured.
    #[arg(long, value_delimiter = ',', default_values = ["burst", "paced", "latency"])]
    pub rows: Vec<Row>,

    /// How many sessions; each count is a run of its own.
    #[arg(long, value_delimiter = ',', default_values = ["1000", "5000"])]
    pub sessions: Vec<usize>,

    /// How many pairs of samples (gateway, floor) each row has. A bar is judged from nine on.
    #[arg(long, default_value_t = 9)]
    pub pairs: usize,

    /// How many samples of the other servers each row has; they are for orientation.
    #[arg(long, default_value_t = 2)]
    pub other_samples: usize,

    /// How many changes a burst has (rmcp: a twentieth).
    #[arg(long, default_value_t = 1_000)]
    pub burst: u32,

    /// How many frames a paced sample delivers over all sessions (rmcp: a fifth).
    #[arg(long, default_value_t = 300_000)]
    pub paced_frames: u32,

    /// The pause between paced changes, in milliseconds.
    #[arg(long, default_value_t = 2)]
    pub pause_ms: u64,

    /// Writes the report into this folder too, as `<date>-<name>.md`.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// The report's name.
    #[arg(long, default_value = "delivery")]
    pub name: String,

    /// Ends with status 2 if a bar is missed.
    #[arg(long)]
    pub enforce: bool,

    /// A smoke run: few sessions, one pair, no verdicts.
    #[arg(long)]
    pub quick: bool,
}

/// A row of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Row {
    /// CPU per frame, many changes at once.
    Burst,
    /// CPU per frame, each change alone.
    Paced,
    /// From a change's acknowledgement to the last session's frame, each change alone.
    Latency,
}

/// How changes are made in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All at once.
    Burst,
    /// One at a time.
    Paced,
}

/// The size of one sample.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How often something is published.
    pub publishings: u32,
    /// How many changes each time.
    pub changes: u32,
    /// How long nothing is published after every session has everything.
    pub pause: Duration,
}

/// Fewer would make a percentile of a sample meaningless.
const PACED_CHANGES_MIN: u32 = 20;

impl Plan {
    /// Reads the command line.
    pub fn read() -> Plan {
        let plan = Plan::parse();
        if plan.quick { plan.shrunk() } else { plan }
    }

    fn shrunk(self) -> Plan {
        Plan {
            sessions: vec![50],
            pairs: 1,
            other_samples: 1,
            burst: 100,
            paced_frames: 1_000,
            ..self
        }
    }

    /// Returns the modes that the rows need.
    pub fn modes(&self) -> Vec<Mode> {
        let burst = self.rows.contains(&Row::Burst).then_some(Mode::Burst);
        let paced = self
            .rows
            .iter()
            .any(|row| *row != Row::Burst)
            .then_some(Mode::Paced);
        burst.into_iter().chain(paced).collect()
    }

    /// Returns how many samples of a server a row has.
    pub fn sample_count(&self, server: Server) -> usize {
        match server {
            Server::Gateway | Server::Floor => self.pairs,
            Server::FloorBytes | Server::Rmcp => self.other_samples.min(self.pairs),
        }
    }

    /// Returns how large a sample is.
    pub fn size(&self, mode: Mode, server: Server, sessions: usize) -> Size {
        // rmcp takes twenty times as long for a frame of a burst, and twice as long when paced.
        let (burst_part, paced_part) = match server {
            Server::Gateway | Server::Floor | Server::FloorBytes => (1, 1),
            Server::Rmcp => (20, 5),
        };
        let pause = Duration::from_millis(self.pause_ms);
        let sessions = u32::try_from(sessions).unwrap_or(u32::MAX).max(1);
        match mode {
            Mode::Burst => Size {
                publishings: 1,
                changes: (self.burst / burst_part).max(1),
                pause,
            },
            Mode::Paced => {
                let changes = self.paced_frames / paced_part / sessions;
                Size {
                    publishings: changes.max(PACED_CHANGES_MIN),
                    changes: 1,
                    pause,
                }
            }
        }
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
