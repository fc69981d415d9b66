//! The answer of `Watch` as its server sends it: entries that were encoded before, many in one slice.

use prost::bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message, decode_length_delimiter, encode_length_delimiter, length_delimiter_len};

use crate::feed::v1::WatchResponse;

/// The key of the field `WatchResponse.entries`: number 1, with a length.
const ENTRIES_KEY: u8 = 1 << 3 | 2;

/// Wire-equal to `feed.v1.WatchResponse`, with its entries as bytes that are only copied.
///
/// The fields of a protobuf message may stand in any number of pieces. So an entry is encoded once, when it is committed, with
/// the field's key and its length in front; neighbours stand in one slice, which every watch shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncodedWatchResponse {
    /// Entries as [`put_entry`] writes them, rising revisions, any number in a slice.
    pub entries: Vec<Bytes>,
    /// Everything else; its own `entries` are empty.
    pub position: WatchResponse,
}

/// Appends an encoded `feed.v1.Entry` as an answer carries it; it takes [`entry_size`] bytes.
pub fn put_entry(buffer: &mut impl BufMut, entry: &[u8]) {
    buffer.put_u8(ENTRIES_KEY);
    // Fails only without room, and a growing buffer has any.
    if encode_length_delimiter(entry.len(), buffer).is_ok() {
        buffer.put_slice(entry);
    }
}

/// Takes the first entry off a slice as [`put_entry`] writes it; `None`, and the slice as it may be, if there is none.
pub fn split_entry<'a>(slice: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&ENTRIES_KEY, mut rest) = slice.split_first()? else {
        return None;
    };
    let length = decode_length_delimiter(&mut rest).ok()?;
    let (entry, rest) = rest.split_at_checked(length)?;
    *slice = rest;
    Some(entry)
}

/// Returns how many bytes [`put_entry`] appends for an entry of this length.
pub fn entry_size(length: usize) -> usize {
    1 + length_delimiter_len(length) + length
}

impl Message for EncodedWatchResponse {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for slice in &self.entries {
            buffer.put_slice(slice);
        }
        self.position.encode_raw(buffer);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.position.merge_field(tag, wire_type, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.entries.iter().map(Bytes::len).sum::<usize>() + self.position.encoded_len()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.position.clear();
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{EncodedWatchResponse, entry_size, put_entry, split_entry};
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
                    // The second entry's length takes two bytes.
                    key: "k".repeat(if revision == 2 { 300 } else { 1 }),
                    ..Change::default()
                })),
                ..Entry::default()
            })
            .collect();
        let position = WatchResponse {
            entries: Vec::new(),
            progress: 3,
            head: 9,
            oldest: 1,
            store_id: "s".into(),
            progress_hash: vec![7; 32].into(),
            problem: "full".into(),
        };
        let declared = WatchResponse {
            entries: entries.clone(),
            ..position.clone()
        };
        let mut slices = vec![Vec::new(), Vec::new()];
        for (index, entry) in entries.iter().enumerate() {
            let slice = &mut slices[index / 2];
            let encoded = entry.encode_to_vec();
            let before = slice.len();
            put_entry(slice, &encoded);
            assert_eq!(slice.len() - before, entry_size(encoded.len()));
        }
        let mut rest = slices[0].as_slice();
        assert_eq!(
            split_entry(&mut rest),
            Some(entries[0].encode_to_vec().as_slice())
        );
        assert_eq!(
            split_entry(&mut rest),
            Some(entries[1].encode_to_vec().as_slice())
        );
        assert_eq!(split_entry(&mut rest), None);
        for broken in [&slices[0][1..], &slices[1][..slices[1].len() - 1]] {
            assert_eq!(split_entry(&mut &*broken), None);
        }
        let encoded = EncodedWatchResponse {
            entries: slices.into_iter().map(Into::into).collect(),
            position,
        };
        assert_eq!(declared.encode_to_vec(), encoded.encode_to_vec());
        assert_eq!(
            EncodedWatchResponse::decode(encoded.encode_to_vec().as_slice())
                .unwrap()
                .position,
            declared
        );
    }
}
