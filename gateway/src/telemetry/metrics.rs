//! The metrics: their names in one place, as instruments that read what others counted.
//!
//! Nothing is recorded here: an instrument asks when it is read, so counting costs one addition wherever something happens.
//! A scrape of Prometheus reads them; whatever else reads instruments of OpenTelemetry can be put beside it.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use tracing::error;

use crate::feed::{Ring, Watch};
use crate::session::{CountBy, Counts, Kind, Sessions};

/// The media type of a scrape's answer.
pub(crate) const TEXT_FORMAT: &str = prometheus::TEXT_FORMAT;

/// The name of what measures.
const METER: &str = "tidegate.gateway";

// Each name as OpenTelemetry has it. Prometheus has `_` in place of `.`, the unit as a suffix, and `_total` behind what only
// rises.
const RESUMES: &str = "tidegate.resumes";
const REPLAYED_FRAMES: &str = "tidegate.replayed.frames";
const FOLDED_NOTICES: &str = "tidegate.folded.notices";
const STREAM_OPENS: &str = "tidegate.stream.opens";
const STREAM_ENDS: &str = "tidegate.stream.ends";
const TAKEOVERS: &str = "tidegate.takeovers";
const TAKEOVERS_WITH_PENDING: &str = "tidegate.takeovers.with.pending";
const FENCES_REFUSED: &str = "tidegate.fences.refused";
const SESSIONS: &str = "tidegate.sessions";
const STREAMS: &str = "tidegate.streams";
const SUBSCRIPTIONS: &str = "tidegate.subscriptions";
const RING: &str = "tidegate.ring";
const WATCH_LIVE: &str = "tidegate.watch.live";
const HEAD_REVISION: &str = "tidegate.head.revision";

// Labels; each has few values, which are named where they are counted.
const OUTCOME: &str = "outcome";
const TRANSPORT: &str = "transport";
const REASON: &str = "reason";

/// The instruments of this process, and what a scrape of them reads.
pub(crate) struct Metrics {
    registry: Registry,
    /// The instruments live as long as this.
    _provider: SdkMeterProvider,
}

impl Metrics {
    /// Makes the instruments on what they read.
    ///
    /// # Errors
    /// Two instruments have one name.
    pub(crate) fn new(
        sessions: &Arc<Sessions>,
        watch: &Arc<Watch>,
        ring: &Arc<Ring>,
    ) -> Result<Metrics, OTelSdkError> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_target_info()
            .scope_info_enabled(false)
            .build()?;
        let provider = SdkMeterProvider::builder().with_reader(exporter).build();
        let meter = provider.meter(METER);
        count_streams(&meter, sessions);
        gauge(&meter, SESSIONS, "", "Sessions that this instance knows", {
            let sessions = Arc::clone(sessions);
            move || sessions.session_count() as u64
        });
        gauge(&meter, STREAMS, "", "Open streams of this instance", {
            let sessions = Arc::clone(sessions);
            move || sessions.stream_count() as u64
        });
        gauge(&meter, SUBSCRIPTIONS, "", "Subscriptions of its open streams", {
            let sessions = Arc::clone(sessions);
            move || sessions.subscription_count() as u64
        });
        gauge(&meter, RING, "By", "Memory that the ring of changes takes", {
            let ring = Arc::clone(ring);
            move || ring.size_bytes() as u64
        });
        gauge(
            &meter,
            WATCH_LIVE,
            "",
            "1 while the watch on the feed service is live, else 0",
            {
                let watch = Arc::clone(watch);
                move || u64::from(watch.is_live())
            },
        );
        gauge(
            &meter,
            HEAD_REVISION,
            "",
            "The newest revision that came from the feed service",
            {
                let ring = Arc::clone(ring);
                move || ring.head()
            },
        );
        Ok(Metrics {
            registry,
            _provider: provider,
        })
    }

    /// Returns everything as text for Prometheus ([`TEXT_FORMAT`]).
    pub(crate) fn text(&self) -> String {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap_or_else(|failure| {
                error!(error = %failure, "cannot write the metrics");
                String::new()
            })
    }
}

fn count_streams(meter: &Meter, sessions: &Arc<Sessions>) {
    let by = |name, label, description, read: fn(&Counts) -> Vec<(&'static str, u64)>| {
        let sessions = Arc::clone(sessions);
        let labels = move || read(sessions.counts());
        let counter = meter.u64_observable_counter(name).with_description(description);
        // The handle of an observed instrument does nothing; the meter keeps the instrument.
        let _ = counter
            .with_callback(move |observer| {
                for (value, count) in labels() {
                    observer.observe(count, &[KeyValue::new(label, value)]);
                }
            })
            .build();
    };
    by(
        RESUMES,
        OUTCOME,
        "Clients that came back with a cursor or left subscriptions, by where what they missed came from",
        |counts| labelled(&counts.resumes),
    );
    by(
        STREAM_OPENS,
        TRANSPORT,
        "Streams that were opened, by transport",
        |counts| labelled(&counts.stream_opens),
    );
    by(STREAM_ENDS, REASON, "Streams that ended, by reason", |counts| {
        labelled(&counts.stream_ends)
    });
    let count = |name, description, read: fn(&Counts) -> u64| {
        let sessions = Arc::clone(sessions);
        let counter = meter.u64_observable_counter(name).with_description(description);
        let _ = counter
            .with_callback(move |observer| observer.observe(read(sessions.counts()), &[]))
            .build();
    };
    count(
        REPLAYED_FRAMES,
        "Frames that clients had missed and got when they came back",
        |counts| counts.replayed_frames.get(),
    );
    count(
        FOLDED_NOTICES,
        "Notices that stand for all that a client missed of one URI, since that was too much",
        |counts| counts.folded_notices.get(),
    );
    count(
        TAKEOVERS,
        "Streams that a newer stream of their session replaced",
        |counts| counts.takeovers.get(),
    );
    count(
        TAKEOVERS_WITH_PENDING,
        "Replaced streams that had frames which were not written yet",
        |counts| counts.takeovers_with_pending.get(),
    );
    count(
        FENCES_REFUSED,
        "Writes to a session's record that the feed service refused, because another instance had taken over",
        |counts| counts.fences_refused.get(),
    );
}

fn labelled<K: Kind>(counts: &CountBy<K>) -> Vec<(&'static str, u64)> {
    counts.get().collect()
}

fn gauge(
    meter: &Meter,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    read: impl Fn() -> u64 + Send + Sync + 'static,
) {
    let gauge = meter
        .u64_observable_gauge(name)
        .with_unit(unit)
        .with_description(description);
    let _ = gauge
        .with_callback(move |observer| observer.observe(read(), &[]))
        .build();
}
