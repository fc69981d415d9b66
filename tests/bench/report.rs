//! What a run says: figures, ratios with their intervals, and whether a bar is met.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::measure::machine::{Cores, Origin};
use crate::measure::stats::{Interval, Summary, percentile};
use crate::plan::{Mode, Plan, Row};
use crate::run::{IdleMemory, Series};
use crate::subject::Sample;
use crate::subject::server::Server;

/// Below so many pairs nothing is judged.
const PAIRS_TO_JUDGE: usize = 9;

/// A run's figures.
#[derive(Clone, Debug)]
pub struct Report {
    /// By mode and session count.
    pub series: Vec<Series>,
    /// By server and session count.
    pub memory: Vec<IdleMemory>,
    origin: Origin,
    cores: Option<Cores>,
    plan: Plan,
}

/// A figure that each sample yields.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    row: Row,
    mode: Mode,
    unit: &'static str,
    of: fn(&Sample) -> f64,
    /// Where a bar applies: session counts, the bar itself, and the goal.
    bar: Option<(&'static [usize], f64, f64)>,
    /// What the floor has shown before, by session count.
    floor_before: &'static [(usize, f64)],
    /// Why it shows something else now, where that is known.
    floor_remark: &'static str,
}

const FIGURES: [Figure; 6] = [
    Figure {
        name: "CPU per frame, burst",
        row: Row::Burst,
        mode: Mode::Burst,
        unit: "µs",
        of: Sample::cpu_per_frame_us,
        bar: Some((&[1_000, 5_000], 0.6, 0.3)),
        floor_before: &[(1_000, 1.5), (5_000, 1.9)],
        floor_remark: "the earlier figure is that of a floor which makes its `Event` anew for every stream (1.75 and 1.55 µs \
                       with this load generator); this one makes it once and is harder to beat",
    },
    Figure {
        name: "CPU per frame, paced",
        row: Row::Paced,
        mode: Mode::Paced,
        unit: "µs",
        of: Sample::cpu_per_frame_us,
        bar: Some((&[1_000, 5_000], 0.9, 0.75)),
        floor_before: &[(1_000, 12.0), (5_000, 15.0)],
        floor_remark: "",
    },
    Figure {
        name: "last frame after acknowledgement, p50",
        row: Row::Latency,
        mode: Mode::Paced,
        unit: "ms",
        of: |sample| percentile(&sample.after_answer_ms, 0.5).unwrap_or(f64::NAN),
        bar: Some((&[1_000], 1.1, 1.1)),
        floor_before: &[],
        floor_remark: "",
    },
    Figure {
        name: "last frame after acknowledgement, p99",
        row: Row::Latency,
        mode: Mode::Paced,
        unit: "ms",
        of: |sample| percentile(&sample.after_answer_ms, 0.99).unwrap_or(f64::NAN),
        bar: Some((&[1_000], 1.1, 1.1)),
        floor_before: &[],
        floor_remark: "",
    },
    Figure {
        name: "last frame after sending, p50",
        row: Row::Latency,
        mode: Mode::Paced,
        unit: "ms",
        of: |sample| percentile(&sample.after_sending_ms, 0.5).unwrap_or(f64::NAN),
        bar: None,
        floor_before: &[],
        floor_remark: "",
    },
    Figure {
        name: "last frame after sending, p99",
        row: Row::Latency,
        mode: Mode::Paced,
        unit: "ms",
        of: |sample| percentile(&sample.after_sending_ms, 0.99).unwrap_or(f64::NAN),
        bar: None,
        floor_before: &[],
        floor_remark: "",
    },
];

/// The floor's resident bytes per session, as measured before.
const FLOOR_SESSION_BYTES_BEFORE: f64 = 19_000.0;

/// A floor that is further away than this from what it was has to be explained before anything is compared with it.
const FLOOR_DEVIATION_MAX: f64 = 1.5;

/// How a ratio stands to its bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Goal,
    Met,
    /// The median is beyond the bar, the interval's lower end is not.
    Open,
    Missed,
    NotJudged,
}

impl Verdict {
    fn of(median: f64, interval: &Interval, bar: f64, goal: f64) -> Verdict {
        if interval.low > bar {
            Verdict::Missed
        } else if median > bar {
            Verdict::Open
        } else if median > goal || goal == bar {
            Verdict::Met
        } else {
            Verdict::Goal
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Goal => "met, goal reached",
            Verdict::Met => "met",
            Verdict::Open => "beyond, within the interval",
            Verdict::Missed => "MISSED",
            Verdict::NotJudged => "not judged",
        })
    }
}

impl Report {
    /// Makes a report without figures.
    pub fn new(origin: Origin, cores: Option<Cores>, plan: &Plan) -> Report {
        Report {
            series: Vec::new(),
            memory: Vec::new(),
            origin,
            cores,
            plan: plan.clone(),
        }
    }

    /// Tells whether a bar is missed.
    pub fn misses_a_bar(&self) -> bool {
        self.figures()
            .any(|(figure, series)| self.verdict(figure, series) == Some(Verdict::Missed))
    }

    /// Writes the report into a folder and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{}-{}.md", self.origin.date, self.plan.name));
        std::fs::write(&path, self.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn figures(&self) -> impl Iterator<Item = (&'static Figure, &Series)> {
        let wanted = FIGURES
            .iter()
            .filter(|figure| self.plan.rows.contains(&figure.row));
        wanted.flat_map(|figure| {
            let series = self.series.iter().filter(|series| series.mode == figure.mode);
            series.map(move |series| (figure, series))
        })
    }

    fn verdict(&self, figure: &Figure, series: &Series) -> Option<Verdict> {
        let (sessions, bar, goal) = figure.bar?;
        let ratios = ratios(figure, series);
        let (summary, interval) = (Summary::of(&ratios)?, Interval::of_median(&ratios)?);
        if !sessions.contains(&series.sessions) || ratios.len() < PAIRS_TO_JUDGE {
            return Some(Verdict::NotJudged);
        }
        Some(Verdict::of(summary.median, &interval, bar, goal))
    }

    fn write_ratios(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| gateway / floor | sessions | pairs | median ratio | interval | min to max | bar (goal) | verdict |"
        )?;
        writeln!(f, "|---|--:|--:|--:|---|---|---|---|")?;
        for (figure, series) in self.figures() {
            let ratios = ratios(figure, series);
            let (Some(summary), Some(interval)) = (Summary::of(&ratios), Interval::of_median(&ratios)) else {
                continue;
            };
            let bar = figure
                .bar
                .filter(|(sessions, ..)| sessions.contains(&series.sessions));
            let bar = match bar {
                Some((_, bar, goal)) if bar == goal => format!("≤ {bar}"),
                Some((_, bar, goal)) => format!("≤ {bar} ({goal})"),
                None => "none".into(),
            };
            let verdict = self
                .verdict(figure, series)
                .map_or_else(String::new, |verdict| verdict.to_string());
            writeln!(
                f,
                "| {} | {} | {} | {:.3} | {:.3} to {:.3} ({:.1} %) | {:.3} to {:.3} | {bar} | {verdict} |",
                figure.name,
                series.sessions,
                ratios.len(),
                summary.median,
                interval.low,
                interval.high,
                interval.confidence * 100.0,
                summary.min,
                summary.max,
            )?;
        }
        Ok(())
    }

    fn write_absolutes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [gateway, floor, floor_bytes, rmcp] = Server::ALL;
        writeln!(
            f,
            "| median (min to max) | sessions | {gateway} | {floor} | {floor_bytes} | {rmcp} |"
        )?;
        writeln!(f, "|---|--:|---|---|---|---|")?;
        for (figure, series) in self.figures() {
            let cell = |server| {
                let values: Vec<f64> = series.of(server).iter().map(figure.of).collect();
                Summary::of(&values).map_or_else(
                    || "".into(),
                    |summary| {
                        format!(
                            "{:.2} ({:.2} to {:.2}) {}",
                            summary.median, summary.min, summary.max, figure.unit
                        )
                    },
                )
            };
            let cells = Server::ALL.map(cell).join(" | ");
            writeln!(f, "| {} | {} | {cells} |", figure.name, series.sessions)?;
        }
        for sessions in &self.plan.sessions {
            let cell = |server| {
                self.session_bytes(server, *sessions)
                    .map_or_else(String::new, kilobytes)
            };
            let cells = Server::ALL.map(cell).join(" | ");
            writeln!(f, "| resident memory per session | {sessions} | {cells} |")?;
        }
        Ok(())
    }

    fn session_bytes(&self, server: Server, sessions: usize) -> Option<f64> {
        let mut memory = self.memory.iter();
        memory
            .find(|memory| memory.server == server && memory.sessions == sessions)
            .map(|memory| memory.bytes)
    }

    /// Compares the floor with what it was, since every ratio rests on it.
    fn write_floor(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (figure, series) in self.figures() {
            let before = figure
                .floor_before
                .iter()
                .find(|(sessions, _)| *sessions == series.sessions);
            let values: Vec<f64> = series.of(Server::Floor).iter().map(figure.of).collect();
            if let (Some((_, before)), Some(now)) = (before, Summary::of(&values)) {
                let name = format!("{}, {} sessions", figure.name, series.sessions);
                let deviation = Deviation {
                    name,
                    now: now.median,
                    before: *before,
                    unit: figure.unit,
                };
                writeln!(f, "- {}", deviation.told(figure.floor_remark))?;
            }
        }
        let memory = self
            .memory
            .iter()
            .filter(|memory| memory.server == Server::Floor && memory.sessions >= 1_000);
        for IdleMemory { sessions, bytes, .. } in memory {
            let name = format!("resident memory per session, {sessions} sessions");
            let deviation = Deviation {
                name,
                now: bytes / 1e3,
                before: FLOOR_SESSION_BYTES_BEFORE / 1e3,
                unit: "KB",
            };
            writeln!(f, "- {}", deviation.told(""))?;
        }
        Ok(())
    }
}

/// A figure of the floor, now and before.
struct Deviation {
    name: String,
    now: f64,
    before: f64,
    unit: &'static str,
}

impl Deviation {
    fn told(&self, remark: &str) -> String {
        let Deviation {
            name,
            now,
            before,
            unit,
        } = self;
        let factor = now / before;
        let remark = match (1.0 / FLOOR_DEVIATION_MAX..=FLOOR_DEVIATION_MAX).contains(&factor) {
            true => String::new(),
            false if remark.is_empty() => ": FAR AWAY, explain this before the ratios are used".to_owned(),
            false => format!(": {remark}"),
        };
        format!("{name}: {now:.2} {unit}, {factor:.2} × the {before} {unit} that it was{remark}")
    }
}

/// Divides what neighbours in time show.
fn ratios(figure: &Figure, series: &Series) -> Vec<f64> {
    let pairs = series.of(Server::Gateway).iter().zip(series.of(Server::Floor));
    pairs
        .map(|(gateway, floor)| (figure.of)(gateway) / (figure.of)(floor))
        .collect()
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.1} KB", bytes / 1e3)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin {
            date,
            commit,
            command,
            machine,
        } = &self.origin;
        writeln!(f, "# Delivery: gateway beside floor and rmcp, {date}\n")?;
        writeln!(f, "- commit: {commit}")?;
        writeln!(f, "- command: `{command}`")?;
        writeln!(f, "- machine: {machine}")?;
        match &self.cores {
            Some(cores) => writeln!(f, "- cores: {cores}")?,
            None => writeln!(f, "- cores: nothing was pinned, there is only one")?,
        }
        writeln!(
            f,
            "- sizes: bursts of {} changes; paced samples of {} frames, {} ms pause; every session got every frame exactly once, in rising order, none folded\n",
            self.plan.burst, self.plan.paced_frames, self.plan.pause_ms
        )?;
        if self.plan.quick {
            writeln!(
                f,
                "A smoke run: it shows that everything works, its figures mean nothing.\n"
            )?;
        }
        self.write_ratios(f)?;
        writeln!(f)?;
        self.write_absolutes(f)?;
        writeln!(f, "\nThe floor beside what it was:\n")?;
        self.write_floor(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;
    use crate::measure::stats::Interval;

    #[test]
    fn a_bar_is_missed_when_the_lower_end_is_beyond_it() {
        let check = |low: f64, median: f64, expected: Verdict| {
            let interval = Interval {
                low,
                high: 2.0,
                confidence: 0.96,
            };
            assert_eq!(Verdict::of(median, &interval, 0.9, 0.75), expected);
        };
        check(0.95, 1.0, Verdict::Missed);
        check(0.85, 1.0, Verdict::Open);
        check(0.80, 0.85, Verdict::Met);
        check(0.60, 0.70, Verdict::Goal);
    }
}
