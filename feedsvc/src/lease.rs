//! Which gateway instances watch, and since when those that did no longer do.
//!
//! An instance's watch is the lease of all streams that it opened. The registry is in memory: after a start of the
//! service every instance counts as one whose watch broke at the start. A jump of the wall clock, or a sleep of the machine, counts as a start:
//! idle time is told by the wall clock, and must not run faster than time does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::clock::{Clock, duration_ms};

/// How long streams count as live after their owner's watch broke: a reconnect takes less (session.proto, `SubscribeRequest`).
const GRACE: Duration = Duration::from_secs(5);

/// How far the wall clock may part from the monotonic one between two looks without having jumped: above what a clock that is being adjusted
/// does in an hour, far below an idle time that anybody sets.
const JUMP_MS: i64 = 10_000;

/// How many instances without a watch are remembered; each is a gateway process that ended.
const BROKEN_MAX: usize = 4_096;

/// The registry.
pub(crate) struct Leases {
    clock: Arc<dyn Clock>,
    started: Moment,
    /// The latest start, or jump of the wall clock, by the wall clock: nothing is idle for longer.
    activity_floor_ms: AtomicI64,
    /// When the clocks were last compared; held for a moment.
    observed: Mutex<Moment>,
    /// Held for look-ups only, never across an await.
    instances: Mutex<HashMap<String, Lease>>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    monotonic: Duration,
    wall_ms: i64,
}

#[derive(Clone, Debug)]
struct Lease {
    open_watches: usize,
    /// Where other instances reach it, as its newest watch said.
    address: String,
    /// When the last watch broke; means nothing while one is open.
    broken: Moment,
}

/// An open watch of an instance; dropped, the watch is broken.
pub(crate) struct LeaseGuard {
    leases: Arc<Leases>,
    instance: String,
}

impl Leases {
    /// Makes an empty registry of a service that starts now.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Leases {
        let started = moment(clock.as_ref());
        Leases {
            clock,
            started,
            activity_floor_ms: AtomicI64::new(started.wall_ms),
            observed: Mutex::new(started),
            instances: Mutex::new(HashMap::new()),
        }
    }

    /// Notes an open watch of an instance that is reached at `address`.
    pub(crate) fn hold(self: &Arc<Leases>, instance: &str, address: &str) -> LeaseGuard {
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = instances.entry(instance.to_owned()).or_insert(Lease {
            open_watches: 0,
            address: String::new(),
            broken: self.started,
        });
        lease.address = address.to_owned();
        lease.open_watches += 1;
        LeaseGuard {
            leases: Arc::clone(self),
            instance: instance.to_owned(),
        }
    }

    /// Returns the instances that watch now, with their addresses, by rising name.
    pub(crate) fn watching(&self) -> Vec<(String, String)> {
        let instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        let mut watching: Vec<_> = instances
            .iter()
            .filter(|(_, lease)| lease.open_watches > 0)
            .map(|(name, lease)| (name.clone(), lease.address.clone()))
            .collect();
        drop(instances);
        watching.sort_unstable();
        watching
    }

    /// Returns whether the streams of an instance count as live.
    pub(crate) fn is_live(&self, instance: &str) -> bool {
        let now = self.clock.monotonic();
        match self.find(instance) {
            Some(lease) if lease.open_watches > 0 => true,
            Some(lease) => now < lease.broken.monotonic + GRACE,
            None => now < self.started.monotonic + GRACE,
        }
    }

    /// Compares the clocks; to be called now and then, at least as often as something may expire.
    pub(crate) fn observe_clock(&self) {
        let now = moment(self.clock.as_ref());
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *observed, now);
        let elapsed = now.monotonic.saturating_sub(before.monotonic);
        let told_ms = now.wall_ms.saturating_sub(before.wall_ms);
        let jump_ms = told_ms.saturating_sub(duration_ms(elapsed));
        if jump_ms.saturating_abs() > JUMP_MS {
            warn!(jump_ms, "the clock has jumped; idle times begin again");
            self.activity_floor_ms.store(now.wall_ms, Ordering::Relaxed);
        }
    }

    /// Returns the latest moment at which an instance is known to have watched, or that of the start, or of a jump of the clock.
    pub(crate) fn last_seen_ms(&self, instance: &str) -> i64 {
        let floor_ms = self.activity_floor_ms.load(Ordering::Relaxed);
        match self.find(instance) {
            Some(lease) if lease.open_watches > 0 => self.clock.now_ms(),
            Some(lease) => lease.broken.wall_ms.max(floor_ms),
            None => floor_ms,
        }
    }

    fn find(&self, instance: &str) -> Option<Lease> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(instance)
            .cloned()
    }

    fn release(&self, instance: &str) {
        let now = moment(self.clock.as_ref());
        let mut instances = self.instances.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = instances.get_mut(instance) {
            lease.open_watches = lease.open_watches.saturating_sub(1);
            lease.broken = now;
        }
        let broken = instances.iter().filter(|(_, lease)| lease.open_watches == 0);
        if broken.clone().count() > BROKEN_MAX {
            let oldest = broken
                .min_by_key(|(_, lease)| lease.broken.monotonic)
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| instances.remove(&name));
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.leases.release(&self.instance);
    }
}

fn moment(clock: &dyn Clock) -> Moment {
    Moment {
        monotonic: clock.monotonic(),
        wall_ms: clock.now_ms(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Leases;
    use crate::clock::testing::ManualClock;

    #[test]
    fn an_instance_is_live_while_it_watches_and_five_seconds_after() {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let leases = Arc::new(Leases::new(clock.clone()));
        assert!(
            leases.is_live("a"),
            "right after the start every instance may be reconnecting"
        );
        clock.advance(Duration::from_secs(5));
        assert!(!leases.is_live("a"));
        assert_eq!(leases.last_seen_ms("a"), 1_000_000);

        assert!(leases.watching().is_empty());
        let (first, second) = (leases.hold("a", "old:1"), leases.hold("a", "new:2"));
        assert!(leases.is_live("a"));
        assert_eq!(leases.watching(), [("a".to_owned(), "new:2".to_owned())]);
        drop(first);
        clock.advance(Duration::from_secs(60));
        assert!(leases.is_live("a"), "one watch is still open");
        drop(second);
        assert!(leases.watching().is_empty(), "live for its streams only");
        clock.advance(Duration::from_millis(4_999));
        assert!(leases.is_live("a"));
        clock.advance(Duration::from_millis(1));
        assert!(!leases.is_live("a"));
        assert_eq!(leases.last_seen_ms("a"), 1_065_000);
    }
}
