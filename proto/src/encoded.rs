//! The answer of `Watch` as its server sends it: entries that were encoded before.

use prost::bytes::Bytes;

/// Wire-equal to `feed.v1.WatchResponse`, with each entry already encoded.
///
/// In protobuf a `repeated bytes` field and a `repeated` message field have the same wire form, so an entry can be
/// encoded once, when it is committed, and its bytes shared by every watch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EncodedWatchResponse {
    /// Encoded `feed.v1.Entry` messages, rising revisions.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub entries: Vec<Bytes>,
    /// As `WatchResponse.progress`.
    #[prost(uint64, tag = "2")]
    pub progress: u64,
    /// As `WatchResponse.head`.
    #[prost(uint64, tag = "3")]
    pub head: u64,
    /// As `WatchResponse.oldest`.
    #[prost(uint64, tag = "4")]
    pub oldest: u64,
    /// As `WatchResponse.store_id`.
    #[prost(string, tag = "5")]
    pub store_id: String,
    /// As `WatchResponse.progress_hash`.
    #[prost(bytes = "bytes", tag = "6")]
    pub progress_hash: Bytes,
    /// As `WatchResponse.problem`.
    #[prost(string, tag = "7")]
    pub problem: String,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::EncodedWatchResponse;
    use crate::feed::v1::{Change, Entry, Operation, WatchResponse, entry::Body};

    #[test]
    fn an_encoded_answer_is_wire_equal_to_the_declared_one() {
        let entries: Vec<Entry> = (1..4)
            .map(|revision| Entry {
                revision,
                body: Some(Body::Change(Change {
                    operation: Operation::Update.into(),
                    database: "data".into(),
                    table: "Product".into(),
                    key: revision.to_string(),
                    ..Change::default()
                })),
                ..Entry::default()
            })
            .collect();
        let declared = WatchResponse {
            entries: entries.clone(),
            progress: 3,
            head: 9,
            oldest: 1,
            store_id: "s".into(),
            progress_hash: vec![7; 32].into(),
            problem: "full".into(),
        };
        let encoded = EncodedWatchResponse {
            entries: entries.iter().map(|entry| entry.encode_to_vec().into()).collect(),
            progress: 3,
            head: 9,
            oldest: 1,
            store_id: "s".into(),
            progress_hash: vec![7; 32].into(),
            problem: "full".into(),
        };
        assert_eq!(declared.encode_to_vec(), encoded.encode_to_vec());
    }
}
