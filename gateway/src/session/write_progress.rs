//! Whether a connection takes what is written to it: noted by the socket, looked at by the sweep over the streams.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What stalls are measured from: an instant does not fit into an atomic.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Since when a connection has taken nothing although something waits.
///
/// Relaxed throughout: it is a time that is compared with seconds, and orders nothing else.
#[derive(Debug, Default)]
pub(crate) struct WriteProgress {
    /// In milliseconds after `ORIGIN`, plus one; 0: nothing waits.
    stalled_since: AtomicU64,
}

impl WriteProgress {
    /// Notes that the connection did not take what was offered; returns whether it did until now.
    pub(crate) fn note_stalled(&self) -> bool {
        let now = u64::try_from(ORIGIN.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
        // The first time of a stall counts.
        self.stalled_since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Notes that the connection took something; returns whether it did not until now.
    pub(crate) fn note_moved(&self) -> bool {
        // Read first: nearly always there is nothing to change, and the line of the cache stays shared.
        self.stalled_since.load(Ordering::Relaxed) != 0 && self.stalled_since.swap(0, Ordering::Relaxed) != 0
    }

    /// Returns for how long it has taken nothing; zero if nothing waits.
    pub(crate) fn stalled_for(&self) -> Duration {
        match self.stalled_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => ORIGIN.elapsed().saturating_sub(Duration::from_millis(since - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_lasts_from_its_first_refusal_until_something_is_taken() {
        let progress = WriteProgress::default();
        assert_eq!(progress.stalled_for(), Duration::ZERO);
        assert!(!progress.note_moved() && progress.note_stalled());
        let first = progress.stalled_since.load(Ordering::Relaxed);
        assert!(first > 0);
        assert!(!progress.note_stalled());
        assert_eq!(progress.stalled_since.load(Ordering::Relaxed), first);
        assert!(progress.note_moved());
        assert_eq!(progress.stalled_for(), Duration::ZERO);
    }
}
