//! Whether a connection takes what is written to it: noted by the socket, looked at by the sweep over the streams. And whether the
//! socket may write at all: what a connection took from a stream waits in its buffers, and there too it must not survive a takeover
//! that this process slept through.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use super::vigil::{self, Hold};

/// What stalls are measured from: an instant does not fit into an atomic.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Since when a connection has taken nothing although something waits.
///
/// Relaxed throughout: it is a time that is compared with seconds, and orders nothing else.
#[derive(Debug, Default)]
pub(crate) struct WriteProgress {
    /// In milliseconds after `ORIGIN`, plus one; 0: nothing waits.
    stalled_since: AtomicU64,
    /// The connection carries one stream at a time, so that all that waits in it is of that one.
    carries_one: bool,
    /// Whether that stream is held; set by the first one.
    hold: OnceLock<Hold>,
    /// The stream gave something that may not have left the connection's buffers yet.
    ///
    /// Set and cleared by the connection's own task, looked at by the hub.
    is_full: AtomicBool,
    /// What waits in it must not be written any more.
    is_void: AtomicBool,
}

/// What the socket of a connection may do.
#[derive(Debug)]
pub(crate) enum Passage {
    /// Write.
    Open,
    /// Wait until this is over.
    Held(Hold),
    /// Break the connection off.
    Void,
}

impl WriteProgress {
    /// Makes that of a connection that carries one stream at a time.
    pub(crate) fn of_one_stream() -> WriteProgress {
        WriteProgress {
            carries_one: true,
            ..WriteProgress::default()
        }
    }

    /// Notes that the connection carries a stream that is held by `hold`.
    pub(super) fn guard(&self, hold: Hold) {
        if self.carries_one {
            // A later stream of the connection begins when nothing of the first is left in it; that it may be held by a gap before its
            // time does no harm.
            let _ = self.hold.set(hold);
        }
    }

    /// Says what the socket may do with bytes that are to be written.
    pub(crate) fn passage(&self) -> Passage {
        let Some(hold) = self.hold.get() else {
            return Passage::Open;
        };
        if self.is_void.load(Ordering::Acquire) {
            return Passage::Void;
        }
        if !hold.is_on(vigil::now()) {
            return Passage::Open;
        }
        Passage::Held(hold.clone())
    }

    /// Notes that the stream gave something to be written.
    pub(super) fn note_given(&self) {
        self.is_full.store(true, Ordering::Release);
    }

    /// Notes that everything that was given was written.
    pub(crate) fn note_emptied(&self) {
        self.is_full.store(false, Ordering::Release);
    }

    /// Notes that the stream was taken over. If that happened while this process was stopped, what waits in the connection is void: its
    /// client gets it, or has got it, from the new owner.
    pub(super) fn note_taken_over(&self) {
        if self.is_full.load(Ordering::Acquire)
            && self.hold.get().is_some_and(|hold| hold.is_on(vigil::now()))
        {
            self.is_void.store(true, Ordering::Release);
        }
    }

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
    use std::sync::Arc;

    use super::super::vigil::Vigil;
    use super::*;

    #[test]
    fn b_4_1_what_waits_in_a_connection_is_void_after_a_takeover_that_the_process_slept_through() {
        let asleep = || {
            let vigil = Arc::<Vigil>::default();
            let hold = vigil.hold();
            vigil.beat(Duration::from_millis(1));
            hold
        };
        for waits in [false, true] {
            let progress = WriteProgress::of_one_stream();
            assert!(matches!(progress.passage(), Passage::Open));
            progress.guard(asleep());
            progress.note_given();
            if !waits {
                progress.note_emptied();
            }
            assert!(matches!(progress.passage(), Passage::Held(_)));
            progress.note_taken_over();
            assert_eq!(matches!(progress.passage(), Passage::Void), waits);
        }
        // Awake: what was taken before goes out.
        let progress = WriteProgress::of_one_stream();
        progress.guard(Arc::<Vigil>::default().hold());
        progress.note_given();
        progress.note_taken_over();
        assert!(matches!(progress.passage(), Passage::Open));
        // Many streams: what waits is not of one.
        let progress = WriteProgress::default();
        progress.guard(asleep());
        progress.note_given();
        progress.note_taken_over();
        assert!(matches!(progress.passage(), Passage::Open));
    }

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
