//! Where the service reads the time, so that tests can turn it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub(crate) trait Clock: Send + Sync + 'static {
    /// Returns the wall clock in milliseconds since the Unix epoch; it may jump in both directions.
    fn now_ms(&self) -> i64;

    /// Returns the time since some fixed moment; it never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug)]
pub(crate) struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Makes a clock whose monotonic time begins now.
    pub(crate) fn new() -> SystemClock {
        SystemClock {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        duration_ms(since_epoch)
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Returns a duration in whole milliseconds, at most `i64::MAX`.
pub(crate) fn duration_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod testing {
    //! A clock that a test turns by hand.

    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::Clock;

    /// Starts at the given wall time and moves only when told.
    #[derive(Debug)]
    pub(crate) struct ManualClock {
        wall_ms: AtomicI64,
        monotonic_ms: AtomicI64,
    }

    impl ManualClock {
        pub(crate) fn new(wall_ms: i64) -> ManualClock {
            ManualClock {
                wall_ms: AtomicI64::new(wall_ms),
                monotonic_ms: AtomicI64::new(0),
            }
        }

        pub(crate) fn set_wall_ms(&self, wall_ms: i64) {
            self.wall_ms.store(wall_ms, Ordering::SeqCst);
        }

        pub(crate) fn advance(&self, duration: Duration) {
            let step = super::duration_ms(duration);
            self.wall_ms.fetch_add(step, Ordering::SeqCst);
            self.monotonic_ms.fetch_add(step, Ordering::SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn now_ms(&self) -> i64 {
            self.wall_ms.load(Ordering::SeqCst)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst).cast_unsigned())
        }
    }
}
