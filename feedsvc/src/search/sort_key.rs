//! Values as bytes: by these they are compared, sorted and found in indexes.
//!
//! The order is that of feed.proto, `SortStep`: null and absent, false, true, numbers by value, strings by their UTF-8,
//! and last lists and objects by their text. No value's bytes are the beginning of another's, so several can be put one
//! behind the other, and inverted for a descending step.

use super::number::{NEGATIVE, POSITIVE, encode_number};
use crate::catalog::json::Json;

/// How much of a sort key an index has; of longer ones the beginning, and all such have this length. Then the page of an
/// index holds many entries, and what shares so long a beginning is told apart by the records themselves.
pub(crate) const INDEX_KEY_LIMIT_BYTES: usize = 256;

/// The first byte of each type. Those of numbers lie between booleans and strings.
pub(super) const NULL: u8 = 0x10;
pub(super) const FALSE: u8 = 0x20;
pub(super) const TRUE: u8 = 0x21;
pub(super) const STRING: u8 = 0x40;
pub(super) const NESTED: u8 = 0x50;

/// Equality only: what begins and ends a list or an object.
const LIST: u8 = 0x60;
const OBJECT: u8 = 0x61;
const END: u8 = 0x00;

/// Types whose values are ordered among each other; those of different types are not (feed.proto, `Comparison`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderedType {
    Boolean,
    Number,
    String,
}

impl OrderedType {
    /// Finds the type of a value; `None` for null, lists and objects, which are ordered with nothing.
    pub(super) fn find(value: &Json) -> Option<OrderedType> {
        match value {
            Json::Bool(_) => Some(OrderedType::Boolean),
            Json::Number(_) => Some(OrderedType::Number),
            Json::String(_) => Some(OrderedType::String),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        }
    }

    /// Returns the lowest and the highest first byte of the type's sort keys.
    pub(super) fn first_bytes(self) -> (u8, u8) {
        match self {
            OrderedType::Boolean => (FALSE, TRUE),
            OrderedType::Number => (NEGATIVE, POSITIVE),
            OrderedType::String => (STRING, STRING),
        }
    }
}

/// Appends the bytes by which a value is ordered; equal bytes mean equal values, except for lists and objects, which
/// may be equal and have different texts.
pub(super) fn encode_sort_key(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.push(NULL),
        Json::Bool(false) => out.push(FALSE),
        Json::Bool(true) => out.push(TRUE),
        Json::Number(text) => encode_number(text, out),
        Json::String(text) => encode_text(STRING, text, out),
        Json::Array(_) | Json::Object(_) => encode_text(NESTED, &value.to_text(), out),
    }
}

/// Returns the bytes by which a value is ordered.
pub(super) fn sort_key(value: &Json) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_sort_key(value, &mut bytes);
    bytes
}

/// Returns the entry of a record in the index of an attribute.
pub(crate) fn index_key(record: &Json, attribute: &str) -> Vec<u8> {
    let value = match record {
        Json::Object(object) => object.get(attribute).unwrap_or(&Json::Null),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => &Json::Null,
    };
    let mut key = sort_key(value);
    key.truncate(INDEX_KEY_LIMIT_BYTES);
    key
}

/// Returns bytes that two values share exactly if they are equal: numbers by value, objects in any order of their
/// attributes, also deep inside.
pub(super) fn equality_key(value: &Json) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_equality_key(value, &mut bytes);
    bytes
}

fn encode_equality_key(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => encode_sort_key(value, out),
        Json::Array(items) => {
            out.push(LIST);
            for item in items {
                encode_equality_key(item, out);
            }
            out.push(END);
        }
        Json::Object(object) => {
            let mut attributes: Vec<(&String, &Json)> = object.iter().collect();
            attributes.sort_by_key(|(name, _)| *name);
            out.push(OBJECT);
            for (name, value) in attributes {
                encode_text(STRING, name, out);
                encode_equality_key(value, out);
            }
            out.push(END);
        }
    }
}

/// Appends a text without its end: what the keys of all texts with this beginning begin with.
pub(super) fn encode_text_start(first: u8, text: &str, out: &mut Vec<u8>) {
    out.push(first);
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            // Above the end, which is two zeros.
            out.push(0xff);
        }
    }
}

/// Returns the text of a string's sort key, or of the beginning of one.
pub(super) fn text_of(sort_key: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(sort_key.len());
    let mut bytes = sort_key.iter().skip(1);
    while let Some(byte) = bytes.next() {
        if *byte == 0 {
            match bytes.next() {
                Some(0xff) => {}
                Some(_) | None => break,
            }
        }
        text.push(*byte);
    }
    text
}

fn encode_text(first: u8, text: &str, out: &mut Vec<u8>) {
    encode_text_start(first, text, out);
    out.extend_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use super::{equality_key, sort_key};
    use crate::catalog::json::Json;

    fn parse(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn values_of_all_types_have_the_order_of_the_contract() {
        let rising = [
            "null",
            "false",
            "true",
            "-1e400",
            "-1",
            "0",
            "0.5",
            "1e400",
            r#""""#,
            r#""\u0000""#,
            r#""\u0000a""#,
            r#""\u0001""#,
            r#""A""#,
            r#""Aa""#,
            r#""a""#,
            r#""é""#,
            r#""😀""#,
            "[10]",
            "[1]",
            "[2]",
            r#"{"a":1}"#,
        ];
        for (index, lower) in rising.iter().enumerate() {
            for higher in &rising[index + 1..] {
                let keys = (sort_key(&parse(lower)), sort_key(&parse(higher)));
                assert!(keys.0 < keys.1, "{lower} {higher}");
                assert!(!keys.1.starts_with(&keys.0), "{lower} {higher}");
            }
        }
    }

    #[test]
    fn equal_values_share_a_key_and_others_do_not() {
        let check = |left: &str, right: &str, expected: bool| {
            let are_equal = equality_key(&parse(left)) == equality_key(&parse(right));
            assert_eq!(are_equal, expected, "{left} {right}");
        };
        check("[1,2.0]", "[1.0,2]", true);
        check(r#"{"a":1,"b":[null]}"#, r#"{"b":[null],"a":1e0}"#, true);
        check("[[],1]", "[[1]]", false);
        check("[]", "{}", false);
        check(r#"{"a":null}"#, "{}", false);
        check(r#"["a","b"]"#, r#"["ab"]"#, false);
        check("1", r#""1""#, false);
        check("null", "false", false);
    }
}
