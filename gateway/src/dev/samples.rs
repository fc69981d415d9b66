//! The sample tables and records of the dev mode.

use bytes::Bytes;
use tracing::info;

use crate::feed::{FeedClient, FeedError, Precondition};

/// The sample schema, and the name under which messages speak of it.
pub(super) const SCHEMA: (&str, &str) = ("the sample schema", include_str!("sample.graphql"));

const DATABASE: &str = "data";

/// Table, key and record.
const RECORDS: [(&str, &str, &str); 5] = [
    (
        "Product",
        "7",
        r#"{"name":"Tide table","description":"High and low water of the year, printed","price":12.50,"stock":120,"tags":["paper"]}"#,
    ),
    (
        "Product",
        "42",
        r#"{"name":"Tide clock","description":"Shows the hours to the next high water","price":49.90,"stock":8,"tags":["clock","brass"],"data":{"serial":9007199254740993}}"#,
    ),
    (
        "Product",
        "100",
        r#"{"name":"Lock gate, model","description":"Scale 1:50, opens and closes","price":310.00,"stock":2,"tags":["wood","model"]}"#,
    ),
    (
        "Order",
        "1001",
        r#"{"customer":"Ida","product":"42","quantity":1,"status":"sent"}"#,
    ),
    (
        "Order",
        "1002",
        r#"{"customer":"Jon","product":"7","quantity":3,"status":"open"}"#,
    ),
];

/// Writes the sample records into tables that are empty: what was changed or deleted since stays as it is.
pub(super) async fn write(feed: &FeedClient) -> Result<(), FeedError> {
    let mut tables: Vec<&str> = RECORDS.iter().map(|(table, ..)| *table).collect();
    tables.dedup();
    for table in tables {
        let (count, revision) = feed.count_records("", DATABASE, table).await?;
        if count > 0 {
            info!(
                table,
                count, revision, "the table has records, no samples are written"
            );
            continue;
        }
        for (_, key, value) in RECORDS.iter().filter(|(of, ..)| *of == table) {
            feed.put_record(
                "",
                DATABASE,
                table,
                key,
                Bytes::from_static(value.as_bytes()),
                Precondition::Absent,
            )
            .await?;
        }
    }
    Ok(())
}
