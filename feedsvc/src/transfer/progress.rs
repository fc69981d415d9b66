//! The progress bar, on a terminal only, and lines that do not get in its way.

use std::io::IsTerminal;
#[cfg(not(test))]
use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::connection::told_duration;

/// How often the bar is drawn while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Records,
}

/// Where a command's data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    OnTerminal,
    Elsewhere,
}

/// The progress of a command.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// Begins, with the number of units that there will be if it is known.
    ///
    /// `data` says whether the command's own data go to the terminal too, where a bar would be in their way.
    pub(super) fn begin(unit: Unit, total: Option<u64>, data: Data) -> Progress {
        let target = if data == Data::Elsewhere && std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = match (unit, total) {
            (Unit::Bytes, Some(_)) => {
                "{bar:30} {percent:>3} % of {total_bytes}  {msg}  {elapsed}, {eta} left"
            }
            (Unit::Records, Some(_)) => "{bar:30} {percent:>3} % of {len}  {msg}  {elapsed}, {eta} left",
            (_, None) => "{spinner} {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress {
            bar,
            begun: Instant::now(),
        }
    }

    /// Shows how far it is.
    pub(super) fn show(&self, position: u64, rows: u64) {
        self.bar.set_position(position);
        self.bar.set_message(format!("{rows} rows"));
    }

    /// Writes a line to stderr, above the bar.
    pub(super) fn tell(&self, line: &str) {
        self.bar.suspend(|| write_line(&format!("feedsvc: {line}")));
    }

    /// Takes the bar away and writes the summary, to which time and speed are added.
    pub(super) fn finish(&self, summary: &str, rows: u64, advice: &str) {
        self.bar.finish_and_clear();
        let elapsed = self.begun.elapsed();
        // Rows and seconds of one command are far below what a double holds exactly.
        #[allow(clippy::cast_precision_loss, reason = "a speed for people to read")]
        let speed = rows as f64 / elapsed.as_secs_f64().max(0.001);
        write_line(&format!(
            "{summary} in {} ({speed:.0} rows/s){advice}",
            told_duration(elapsed)
        ));
    }

    /// Takes the bar away without a word.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Writes a line to stderr. One that cannot be written has no reader.
#[cfg(not(test))]
pub(super) fn write_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a line to where the test harness keeps it for a test that fails.
#[cfg(test)]
pub(super) fn write_line(line: &str) {
    eprintln!("{line}");
}
