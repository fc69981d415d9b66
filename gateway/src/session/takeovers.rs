//! How often the stream of a session was taken over lately: two clients on one session take it from each other for ever.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// More take-overs than this within [`WINDOW`] are no reconnects any more.
const FREE: usize = 5;

/// How long a take-over counts.
const WINDOW: Duration = Duration::from_secs(10);

/// How long the next open is held then.
const HOLD: Duration = Duration::from_secs(5);

/// The latest take-overs of one session's streams on this instance.
///
/// Invariant: at most `FREE + 1` times, rising.
#[derive(Debug, Default)]
pub(super) struct Takeovers(Mutex<VecDeque<Instant>>);

impl Takeovers {
    /// Notes that a stream was taken over at `now`.
    pub(super) fn note(&self, now: Instant) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() > FREE {
            times.pop_front();
        }
        times.push_back(now);
    }

    /// Returns how long an open at `now` is to be held.
    pub(super) fn hold(&self, now: Instant) -> Duration {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = times
            .iter()
            .filter(|time| now.duration_since(**time) < WINDOW)
            .count();
        if recent > FREE { HOLD } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_4_11_the_open_after_more_than_five_takeovers_in_ten_seconds_is_held() {
        let takeovers = Takeovers::default();
        let start = Instant::now();
        for second in 0..5 {
            takeovers.note(start + Duration::from_secs(second));
        }
        assert_eq!(takeovers.hold(start + Duration::from_secs(5)), Duration::ZERO);
        takeovers.note(start + Duration::from_secs(5));
        assert_eq!(takeovers.hold(start + Duration::from_secs(5)), HOLD);
        // The first of the six no longer counts.
        assert_eq!(takeovers.hold(start + Duration::from_secs(10)), Duration::ZERO);
    }
}
