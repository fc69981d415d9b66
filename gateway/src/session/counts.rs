//! What happened to the streams of this instance since it started: plain numbers, so that counting never waits and needs nobody to read it.
//!
//! Counted where something happens to a stream or a batch as a whole, never for each frame: the path of a frame stays as it is.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stream::CloseReason;

/// How a client that came back was brought to the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeOutcome {
    /// From memory, on the instance that had its stream before, with no more than `replay.frames` frames.
    Buffer,
    /// From this instance's ring of changes otherwise.
    Ring,
    /// From the feed service's log.
    Log,
    /// What it missed cannot be known any more: every URI was told once.
    Gap,
}

/// By which door a stream was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// GET of Streamable HTTP, of the legacy era.
    StreamableHttp,
    /// GET of HTTP+SSE, of the legacy era.
    HttpSse,
    /// A listen of the modern era.
    Listen,
}

/// Something of which there are few kinds, each counted by itself: the values of one label.
pub(crate) trait Kind: Copy + 'static {
    /// Every kind, in the order of [`Kind::index`].
    const ALL: &'static [Self];

    /// Returns its place in `ALL`.
    fn index(self) -> usize;

    /// Returns the value of the label.
    fn label(self) -> &'static str;
}

impl Kind for ResumeOutcome {
    const ALL: &'static [ResumeOutcome] = &[
        ResumeOutcome::Buffer,
        ResumeOutcome::Ring,
        ResumeOutcome::Log,
        ResumeOutcome::Gap,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn label(self) -> &'static str {
        match self {
            ResumeOutcome::Buffer => "buffer",
            ResumeOutcome::Ring => "ring",
            ResumeOutcome::Log => "log",
            ResumeOutcome::Gap => "gap",
        }
    }
}

impl Kind for Transport {
    const ALL: &'static [Transport] = &[Transport::StreamableHttp, Transport::HttpSse, Transport::Listen];

    fn index(self) -> usize {
        self as usize
    }

    fn label(self) -> &'static str {
        match self {
            Transport::StreamableHttp => "streamable_http",
            Transport::HttpSse => "http_sse",
            Transport::Listen => "listen",
        }
    }
}

impl Kind for CloseReason {
    const ALL: &'static [CloseReason] = &[
        CloseReason::TakenOver,
        CloseReason::Slow,
        CloseReason::Cancelled,
        CloseReason::ClientLeft,
        CloseReason::SessionEnded,
        CloseReason::LostHistory,
        CloseReason::Shutdown,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn label(self) -> &'static str {
        self.as_str()
    }
}

/// A number that only rises.
///
/// Relaxed throughout: it is read by itself and orders nothing else.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds so many.
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns how many there were.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One number for each kind.
#[derive(Debug)]
pub(crate) struct CountBy<K> {
    counts: Box<[Count]>,
    kind: PhantomData<fn(K)>,
}

impl<K: Kind> Default for CountBy<K> {
    fn default() -> CountBy<K> {
        CountBy {
            counts: K::ALL.iter().map(|_| Count::default()).collect(),
            kind: PhantomData,
        }
    }
}

impl<K: Kind> CountBy<K> {
    /// Adds one of this kind.
    pub(crate) fn add(&self, kind: K) {
        if let Some(count) = self.counts.get(kind.index()) {
            count.add(1);
        }
    }

    /// Returns the label's values with their numbers.
    pub(crate) fn get(&self) -> impl Iterator<Item = (&'static str, u64)> {
        K::ALL
            .iter()
            .zip(&self.counts)
            .map(|(kind, count)| (kind.label(), count.get()))
    }
}

/// Everything that is counted. What each number means stands in its description (see `telemetry::metrics`).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Streams that were opened.
    pub(crate) stream_opens: CountBy<Transport>,
    /// Streams that ended, by why.
    pub(crate) stream_ends: CountBy<CloseReason>,
    /// Clients that came back.
    pub(crate) resumes: CountBy<ResumeOutcome>,
    /// Frames that they had missed.
    pub(crate) replayed_frames: Count,
    /// Notices that were sent in place of more.
    pub(crate) folded_notices: Count,
    /// Streams that a newer one of the session replaced.
    pub(crate) takeovers: Count,
    /// Those of them that had something unwritten.
    pub(crate) takeovers_with_pending: Count,
    /// Writes to a session's record that came too late.
    pub(crate) fences_refused: Count,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_place_and_label() {
        fn check<K: Kind>() {
            let counts = CountBy::<K>::default();
            for (place, kind) in K::ALL.iter().enumerate() {
                assert_eq!(kind.index(), place);
                (0..=place).for_each(|_| counts.add(*kind));
            }
            let mut labels: Vec<_> = counts.get().map(|(label, _)| label).collect();
            assert!(counts.get().map(|(_, count)| count).eq(1..=K::ALL.len() as u64));
            labels.dedup();
            assert_eq!(labels.len(), K::ALL.len());
        }
        check::<ResumeOutcome>();
        check::<Transport>();
        check::<CloseReason>();
    }
}
