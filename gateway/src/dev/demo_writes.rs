//! `--demo-writes`: somebody changes a price every second.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::feed::{FeedClient, FeedError, Precondition};

/// The record whose price changes.
const RECORD: (&str, &str, &str) = ("data", "Product", "42");

/// Changes the price of a sample product every second until `shutdown`; a write that fails is logged, the next one tried.
pub(super) async fn run(feed: FeedClient, shutdown: CancellationToken) {
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cents: u32 = 4_990;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        cents = if cents >= 5_990 { 4_990 } else { cents + 1 };
        if let Err(error) = change_price(&feed, cents).await {
            warn!(%error, "cannot change the price");
        }
    }
}

async fn change_price(feed: &FeedClient, cents: u32) -> Result<(), FeedError> {
    let (database, table, key) = RECORD;
    let (stored, _revision) = feed.read_record("", database, table, key).await?;
    let mut record: Map<String, Value> = stored
        .and_then(|stored| serde_json::from_slice(&stored.value).ok())
        .unwrap_or_default();
    record.entry("name").or_insert_with(|| Value::from("Tide clock"));
    let price = format!("{}.{:02}", cents / 100, cents % 100);
    record.insert(
        "price".into(),
        serde_json::from_str(&price).unwrap_or(Value::Null),
    );
    feed.put_record(
        "",
        database,
        table,
        key,
        Bytes::from(Value::Object(record).to_string()),
        Precondition::None,
    )
    .await?;
    Ok(())
}
