//! Where a record stands in the order of a search, as bytes.
//!
//! The sort keys of all steps stand one behind the other, those of descending steps inverted, and last the record's key.
//! A page begins at a position that need not be a record's: the shortest bytes that lie between the last record of the
//! page before and the next one. So a position is short although the values may be long.

use super::query::SortStep;
use super::sort_key::encode_sort_key;
use crate::catalog::json::JsonObject;

/// A place in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) bytes: Vec<u8>,
    /// The length of the first step's sort key, in bytes; it may be longer than the bytes, where they were cut. 0 without a step.
    pub(super) first_length: usize,
}

impl Position {
    /// Returns the place of a record.
    pub(super) fn of(sort: &[SortStep], record: &JsonObject, key: &str) -> Position {
        let mut bytes = Vec::new();
        let mut first_length = 0;
        for (index, step) in sort.iter().enumerate() {
            let start = bytes.len();
            encode_sort_key(step.attribute.find(record), &mut bytes);
            if step.descending {
                invert(&mut bytes[start..]);
            }
            if index == 0 {
                first_length = bytes.len();
            }
        }
        bytes.extend_from_slice(key.as_bytes());
        Position { bytes, first_length }
    }

    /// Returns the shortest place that is above `last` and not above this one. `last` must be below this one.
    pub(super) fn shortened_after(&self, last: &Position) -> Position {
        let common = self
            .bytes
            .iter()
            .zip(&last.bytes)
            .take_while(|(left, right)| left == right)
            .count();
        Position {
            bytes: self.bytes.iter().take(common + 1).copied().collect(),
            first_length: self.first_length,
        }
    }

    /// Returns the sort key of the first step, as far as it is there, and what stands behind it.
    pub(super) fn first_step(&self, descending: bool) -> (Vec<u8>, &[u8]) {
        let (first, rest) = self.bytes.split_at(self.first_length.min(self.bytes.len()));
        let mut first = first.to_vec();
        if descending {
            invert(&mut first);
        }
        (first, rest)
    }

    /// Whether the first step's sort key is there as a whole.
    pub(super) fn has_first_step(&self) -> bool {
        self.bytes.len() >= self.first_length
    }
}

fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

#[cfg(test)]
mod tests {
    use super::Position;
    use crate::catalog::json::Json;
    use crate::search::condition::AttributePath;
    use crate::search::query::SortStep;

    fn position(value: &str, key: &str, descending: bool) -> Position {
        let step = SortStep {
            attribute: AttributePath::parse("", "a").unwrap(),
            descending,
        };
        let text = format!(r#"{{"a":{value}}}"#);
        let Ok(Json::Object(record)) = Json::parse(text.as_bytes()) else {
            panic!("no object")
        };
        Position::of(&[step], &record, key)
    }

    #[test]
    fn a_place_between_two_records_is_short_and_between_them() {
        let long = |end: &str| format!("\"{}{end}\"", "x".repeat(1_000));
        for (last, next, length) in [
            (position("1", "a", false), position("2", "a", false), 3),
            (position("2", "a", true), position("1", "a", true), 3),
            (position("1", "a", false), position("1", "ab", false), 6),
            (
                position(&long("a"), "k", false),
                position(&long("b"), "k", false),
                1_002,
            ),
        ] {
            assert!(last < next);
            let between = next.shortened_after(&last);
            assert!(last.bytes < between.bytes && between.bytes <= next.bytes);
            assert_eq!(between.bytes.len(), length);
        }
    }
}
