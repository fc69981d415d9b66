//! What a run of pairs says: ratios with their intervals, absolute figures beside them, and whether a bar is met.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::measure::machine::Origin;
use crate::measure::stats::{Interval, Summary};

/// Below so many pairs nothing is judged.
const PAIRS_TO_JUDGE: usize = 9;

/// A run's figures.
#[derive(Clone, Debug)]
pub struct Report {
    figures: Vec<Figure>,
    notes: Vec<String>,
    origin: Origin,
    subject: &'static str,
    is_smoke: bool,
}

/// Samples of two sides, the n-th of both neighbours in time.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured on both sides, as "ours / theirs".
    pub name: String,
    /// Of the absolute values.
    pub unit: &'static str,
    /// Of the feed service.
    pub ours: Vec<f64>,
    /// Of what it is compared with.
    pub theirs: Vec<f64>,
    /// The bar from below, where more is better.
    pub at_least: Option<f64>,
    /// The bar from above, where less is better.
    pub at_most: Option<f64>,
}

impl Figure {
    fn ratios(&self) -> Vec<f64> {
        self.ours
            .iter()
            .zip(&self.theirs)
            .map(|(ours, theirs)| ours / theirs)
            .collect()
    }

    fn bar(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(bar), _) => format!("≥ {bar}"),
            (None, Some(bar)) => format!("≤ {bar}"),
            (None, None) => "none".to_owned(),
        }
    }

    /// Missed: the whole interval is beyond the bar.
    fn verdict(&self, median: f64, interval: &Interval) -> &'static str {
        let (is_met, is_missed) = match (self.at_least, self.at_most) {
            (Some(bar), _) => (median >= bar, interval.high < bar),
            (None, Some(bar)) => (median <= bar, interval.low > bar),
            (None, None) => return "",
        };
        if self.ours.len() < PAIRS_TO_JUDGE {
            return "not judged";
        }
        match (is_met, is_missed) {
            (true, _) => "met",
            (false, true) => "MISSED",
            (false, false) => "beyond, within the interval",
        }
    }
}

impl Report {
    /// Makes a report without figures about a subject; a smoke run is said to be one.
    pub fn new(subject: &'static str, is_smoke: bool) -> Report {
        Report {
            figures: Vec::new(),
            notes: Vec::new(),
            origin: Origin::read(),
            subject,
            is_smoke,
        }
    }

    /// Adds a figure.
    pub fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Adds a line of explanation.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Tells whether a bar is missed.
    pub fn misses_a_bar(&self) -> bool {
        self.to_string().contains("| MISSED |")
    }

    /// Writes the report into a folder as `<date>-<name>.md` and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{}-{name}.md", self.origin.date));
        std::fs::write(&path, self.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin {
            date,
            commit,
            command,
            machine,
        } = &self.origin;
        writeln!(f, "# {}, {date}\n", self.subject)?;
        writeln!(f, "- commit: {commit}")?;
        writeln!(f, "- command: `{command}`")?;
        writeln!(
            f,
            "- machine: {machine}; nothing is pinned, load and service share the cores"
        )?;
        for note in &self.notes {
            writeln!(f, "- {note}")?;
        }
        if self.is_smoke {
            writeln!(
                f,
                "\nA smoke run: it shows that everything works, its figures mean nothing."
            )?;
        }
        writeln!(
            f,
            "\n| ours / theirs | pairs | median ratio | interval | min to max | bar | verdict |"
        )?;
        writeln!(f, "|---|--:|--:|---|---|---|---|")?;
        for figure in &self.figures {
            let ratios = figure.ratios();
            let (Some(summary), Some(interval)) = (Summary::of(&ratios), Interval::of_median(&ratios)) else {
                continue;
            };
            writeln!(
                f,
                "| {} | {} | {:.3} | {:.3} to {:.3} ({:.1} %) | {:.3} to {:.3} | {} | {} |",
                figure.name,
                ratios.len(),
                summary.median,
                interval.low,
                interval.high,
                interval.confidence * 100.0,
                summary.min,
                summary.max,
                figure.bar(),
                figure.verdict(summary.median, &interval),
            )?;
        }
        writeln!(f, "\n| median (min to max) | ours | theirs |")?;
        writeln!(f, "|---|---|---|")?;
        for figure in &self.figures {
            let cell = |values: &[f64]| summary(values, figure.unit);
            writeln!(
                f,
                "| {} | {} | {} |",
                figure.name,
                cell(&figure.ours),
                cell(&figure.theirs)
            )?;
        }
        Ok(())
    }
}

/// Returns median and range of values.
pub fn summary(values: &[f64], unit: &str) -> String {
    Summary::of(values).map_or_else(String::new, |summary| {
        format!(
            "{:.1} ({:.1} to {:.1}) {unit}",
            summary.median, summary.min, summary.max
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Figure;
    use crate::measure::stats::Interval;

    #[test]
    fn a_bar_is_missed_when_the_whole_interval_is_beyond_it() {
        let interval = Interval {
            low: 0.7,
            high: 0.9,
            confidence: 0.96,
        };
        let check = |at_least: Option<f64>, at_most: Option<f64>, expected: &str| {
            let figure = Figure {
                name: String::new(),
                unit: "",
                ours: vec![1.0; 9],
                theirs: vec![1.0; 9],
                at_least,
                at_most,
            };
            assert_eq!(figure.verdict(0.8, &interval), expected);
        };
        check(Some(0.8), None, "met");
        check(Some(0.85), None, "beyond, within the interval");
        check(Some(0.95), None, "MISSED");
        check(None, Some(0.8), "met");
        check(None, Some(0.75), "beyond, within the interval");
        check(None, Some(0.6), "MISSED");
        check(None, None, "");
    }
}
