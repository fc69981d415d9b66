//! Medians, percentiles and an interval for a median that assumes no distribution.

/// The confidence that an interval has at least, where there are enough samples for it (six).
const CONFIDENCE: f64 = 0.95;

/// Median, range and spread of samples of one thing.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Sums up samples; `None` of none.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let sorted = sorted(samples);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[half - 1] + sorted[half]) / 2.0
        } else {
            sorted[half]
        };
        Some(Summary { median, min, max })
    }
}

/// An interval that covers the median of whatever the samples come from, by their order alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The probability that such an interval covers the median.
    pub confidence: f64,
}

impl Interval {
    /// Returns the narrowest interval between the k-th smallest and the k-th largest sample that has 95 % confidence; with fewer than
    /// six samples their range, with less. `None` of none.
    pub fn of_median(samples: &[f64]) -> Option<Interval> {
        let sorted = sorted(samples);
        let count = sorted.len();
        let mut interval = None;
        // The median is outside of [k-th smallest, k-th largest] when fewer than k samples fall on one of its sides,
        // and each sample falls on either with probability 1/2.
        let mut outside = 0.0;
        let mut ways = 1.0;
        for below in 0..count.div_ceil(2) {
            outside += 2.0 * ways / 2_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
            let confidence = 1.0 - outside;
            if interval.is_some() && confidence < CONFIDENCE {
                break;
            }
            interval = Some(Interval {
                low: sorted[below],
                high: sorted[count - 1 - below],
                confidence,
            });
            ways *= (count - below) as f64 / (below + 1) as f64;
        }
        interval
    }
}

/// Returns the smallest sample that at least this share (0 to 1) of all do not exceed; `None` of none.
pub fn percentile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let index = sorted
        .iter()
        .enumerate()
        .find(|(index, _)| (index + 1) as f64 >= share * sorted.len() as f64);
    index.map(|(_, sample)| *sample)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::{Interval, Summary, percentile};

    fn up_to(count: u32) -> Vec<f64> {
        (1..=count).rev().map(f64::from).collect()
    }

    #[test]
    fn the_interval_of_nine_samples_leaves_out_one_at_each_end() {
        let interval = Interval::of_median(&up_to(9)).unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 8.0));
        assert!((interval.confidence - 0.961).abs() < 0.001, "{interval:?}");
    }

    #[test]
    fn the_interval_of_twenty_samples_is_that_of_the_tables() {
        let interval = Interval::of_median(&up_to(20)).unwrap();
        assert_eq!((interval.low, interval.high), (6.0, 15.0));
    }

    #[test]
    fn few_samples_give_their_range_and_say_how_little_it_means() {
        let interval = Interval::of_median(&up_to(3)).unwrap();
        assert_eq!(
            (interval.low, interval.high, interval.confidence),
            (1.0, 3.0, 0.75)
        );
        assert_eq!(Interval::of_median(&up_to(1)).unwrap().confidence, 0.0);
        assert_eq!(Interval::of_median(&[]), None);
    }

    #[test]
    fn medians_and_percentiles_are_order_statistics() {
        assert_eq!(Summary::of(&up_to(4)).unwrap().median, 2.5);
        assert_eq!(Summary::of(&up_to(5)).unwrap().median, 3.0);
        assert_eq!(percentile(&up_to(100), 0.99), Some(99.0));
        assert_eq!(percentile(&up_to(3), 0.5), Some(2.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
