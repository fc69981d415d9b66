//! Whether this process ran all the time, or was stopped for a while (SIGSTOP, a suspended machine).
//!
//! A process that wakes up does not know what happened meanwhile, above all not that another instance took its streams over; and
//! which of its tasks runs first, nobody can say. So a *beat* notes at short intervals that the process runs, and whoever writes
//! looks at it: after a gap nothing is written until the session layer has *caught up* with the feed service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// How often the process notes that it runs.
pub(super) const BEAT: Duration = Duration::from_millis(50);

/// After so long without a beat it is taken for having been stopped: a busy machine seldom delays one by as much, and if it does that costs
/// one question to the feed service. A takeover within less
/// time is like one that is still on its way to an instance that runs.
const GAP: Duration = Duration::from_millis(250);

/// The clock goes on while the process is stopped, and where there is such a clock while the machine is suspended.
const CLOCK: ClockId = if cfg!(target_os = "linux") {
    BOOT_TIME
} else {
    ClockId::Monotonic
};

#[cfg(target_os = "linux")]
const BOOT_TIME: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_TIME: ClockId = ClockId::Monotonic;

/// Returns the time of the clock that gaps are measured by.
pub(super) fn now() -> Duration {
    // It counts from the boot and is never negative.
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// What is known of gaps.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    /// When the newest beat was, in milliseconds; 0: there was none yet, and there are no gaps.
    ///
    /// Invariant: a beat that follows a gap raises `noticed` first. So whoever sees the new time sees the hold too.
    beaten: AtomicU64,
    /// How many gaps were noticed; the same one perhaps several times, by tasks that ran at the same time.
    noticed: AtomicU64,
    /// Up to which of them this instance has caught up. Writers are held while it is below.
    caught_up: AtomicU64,
    gap: Notify,
    released: Notify,
}

impl Vigil {
    /// Notes that the process runs.
    pub(super) fn beat(&self, now: Duration) {
        if is_gap(self.beaten.load(Ordering::Acquire), now) {
            self.notice();
        }
        self.beaten.store(millis(now), Ordering::Release);
    }

    /// Returns what tells a writer that begins now when it is held. Gaps that were noticed before do not concern it: what it writes
    /// is asked of the feed service after them.
    pub(super) fn hold(self: &Arc<Vigil>) -> Hold {
        Hold {
            vigil: Arc::clone(self),
            since: self.noticed.load(Ordering::Acquire),
        }
    }

    /// Waits for a gap that this instance has not caught up with, and returns its number.
    pub(super) async fn gap(&self) -> u64 {
        loop {
            let noticed = self.gap.notified();
            if self.is_behind(0) {
                return self.noticed.load(Ordering::Acquire);
            }
            noticed.await;
        }
    }

    /// Ends the hold up to this gap; returns whether nothing is held any more. A later gap, also one that nobody has noticed before, holds on.
    pub(super) fn release(&self, gap: u64, now: Duration) -> bool {
        if is_gap(self.beaten.load(Ordering::Acquire), now) {
            self.notice();
        }
        self.caught_up.fetch_max(gap, Ordering::AcqRel);
        self.released.notify_waiters();
        !self.is_behind(0)
    }

    /// Says whether there was a gap after the first `since` that this instance has not caught up with.
    fn is_behind(&self, since: u64) -> bool {
        self.noticed.load(Ordering::Acquire) > self.caught_up.load(Ordering::Acquire).max(since)
    }

    fn notice(&self) {
        self.noticed.fetch_add(1, Ordering::AcqRel);
        self.gap.notify_one();
    }
}

/// What tells one writer when it is held.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    vigil: Arc<Vigil>,
    /// How many gaps were noticed before it began.
    since: u64,
}

impl Hold {
    /// Says whether nothing may be written now.
    pub(super) fn is_on(&self, now: Duration) -> bool {
        // The beat first: see the invariant.
        let beaten = self.vigil.beaten.load(Ordering::Acquire);
        if self.vigil.is_behind(self.since) {
            return true;
        }
        let is_gap = is_gap(beaten, now);
        if is_gap {
            self.vigil.notice();
        }
        is_gap
    }

    /// Waits until it is over.
    pub(crate) async fn over(self) {
        loop {
            let released = self.vigil.released.notified();
            if !self.vigil.is_behind(self.since) {
                return;
            }
            released.await;
        }
    }
}

fn is_gap(beaten: u64, now: Duration) -> bool {
    beaten > 0 && millis(now).saturating_sub(beaten) > millis(GAP)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    const START: Duration = Duration::from_secs(1_000);

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn gap(vigil: &Vigil) -> Option<u64> {
        match poll(pin!(vigil.gap())) {
            Poll::Ready(gap) => Some(gap),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nothing_is_held_before_the_first_beat_and_while_beats_come() {
        let vigil = Arc::<Vigil>::default();
        let hold = vigil.hold();
        assert!(!hold.is_on(START));
        for beat in 0..100 {
            vigil.beat(START + BEAT * beat);
            assert!(!hold.is_on(START + BEAT * beat + GAP));
        }
        assert_eq!(gap(&vigil), None);
    }

    /// `first` is what runs first after the process woke.
    fn check_held(first: impl Fn(&Vigil, &Hold, Duration)) {
        let vigil = Arc::<Vigil>::default();
        let hold = vigil.hold();
        vigil.beat(START);
        let woken = START + Duration::from_secs(5);
        first(&vigil, &hold, woken);
        assert!(hold.is_on(woken));
        vigil.beat(woken);
        assert!(hold.is_on(woken), "a beat does not end it");
        assert!(!vigil.hold().is_on(woken), "it concerns what began before it");
        let noticed = gap(&vigil).unwrap();
        let mut over = pin!(hold.clone().over());
        assert!(poll(over.as_mut()).is_pending());
        assert!(vigil.release(noticed, woken));
        assert!(!hold.is_on(woken));
        assert!(poll(over).is_ready());
        assert_eq!(gap(&vigil), None);
    }

    #[test]
    fn b_4_1_after_a_gap_writers_are_held_until_the_release_whoever_runs_first() {
        check_held(|vigil, _, now| vigil.beat(now));
        check_held(|_, hold, now| assert!(hold.is_on(now)));
        check_held(|_, _, _| {});
    }

    #[test]
    fn b_4_1_a_gap_during_the_catching_up_holds_on() {
        for is_seen_before in [true, false] {
            let vigil = Arc::<Vigil>::default();
            let hold = vigil.hold();
            vigil.beat(START);
            let woken = START + Duration::from_secs(5);
            vigil.beat(woken);
            let noticed = gap(&vigil).unwrap();
            let woken_again = woken + Duration::from_secs(5);
            if is_seen_before {
                vigil.beat(woken_again);
            }
            assert!(!vigil.release(noticed, woken_again));
            assert!(hold.is_on(woken_again));
            vigil.beat(woken_again);
            let noticed = gap(&vigil).unwrap();
            assert!(vigil.release(noticed, woken_again) && !hold.is_on(woken_again));
        }
    }

    #[test]
    fn the_clock_goes_on() {
        let before = now();
        assert!(!before.is_zero());
        assert!(now() >= before);
    }
}
