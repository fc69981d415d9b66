//! JSON read once and strictly: encoding and depth first, then one level at a time.
//!
//! Values below the level in hand stay raw text, so numbers keep their digits and nothing is read twice in
//! different ways.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting of arrays and objects that is read. serde_json's own limit of 127 counts from each value that
/// is read as a whole, which is never the outermost two levels of a message.
pub(crate) const MAX_DEPTH: usize = 128;

/// Why bytes are not looked at as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonRefusal {
    /// They are not UTF-8.
    #[error("the body is not valid utf-8")]
    NotUtf8,
    /// Arrays and objects are nested deeper than [`MAX_DEPTH`].
    #[error("json is nested deeper than {limit} levels", limit = MAX_DEPTH)]
    TooDeep,
}

/// Returns the bytes as text, without a leading byte order mark; whether it is JSON is not looked at.
///
/// The depth has to be limited here, since a raw value is skipped without any limit.
pub(crate) fn check(bytes: &[u8]) -> Result<&str, JsonRefusal> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| JsonRefusal::NotUtf8)?;
    if is_deeper_than(bytes, MAX_DEPTH) {
        Err(JsonRefusal::TooDeep)
    } else {
        Ok(text)
    }
}

/// What kind of value a JSON text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `-` or a digit begins it.
    Number,
    /// `null`, `true`, `false`, or no JSON at all.
    Other,
}

impl Kind {
    /// Looks at the first character after white space.
    pub(crate) fn of(text: &str) -> Kind {
        match text
            .bytes()
            .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Other,
        }
    }
}

/// Why an object's members cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MembersError {
    /// The text is not JSON.
    #[error("invalid json at line {line} column {column}")]
    Syntax {
        /// 1-based.
        line: usize,
        /// 1-based, in bytes; 0 at a line's end.
        column: usize,
    },
    /// It is JSON, but no object.
    #[error("not an object")]
    NotAnObject,
    /// Two members have this name, perhaps spelt with different escapes.
    #[error("duplicate key {0:?}")]
    DuplicateKey(String),
}

impl From<serde_json::Error> for MembersError {
    fn from(error: serde_json::Error) -> MembersError {
        MembersError::Syntax {
            line: error.line(),
            column: error.column(),
        }
    }
}

/// A member that is there and is not a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a string")]
pub(crate) struct NotAString;

/// The members of one object, in the order they were written, with raw values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object whose names must be unique.
    pub(crate) fn read(text: &'a str) -> Result<Members<'a>, MembersError> {
        let members = Members::read_with_duplicates(text)?;
        match members.find_duplicate() {
            Some(name) => Err(MembersError::DuplicateKey(name.to_owned())),
            None => Ok(members),
        }
    }

    /// Reads an object as it is, for whoever still needs something of it before refusing it.
    pub(super) fn read_with_duplicates(text: &'a str) -> Result<Members<'a>, MembersError> {
        if Kind::of(text) == Kind::Object {
            return Ok(serde_json::from_str(text)?);
        }
        serde_json::from_str::<IgnoredAny>(text)?;
        Err(MembersError::NotAnObject)
    }

    /// Returns a name that more than one member has, the first one by its order as text.
    pub(super) fn find_duplicate(&self) -> Option<&str> {
        // Sorting instead of comparing all pairs: a body of 4 MiB has room for half a million members.
        let mut names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        names.windows(2).find_map(|pair| match pair {
            [first, second] if first == second => Some(*first),
            _ => None,
        })
    }

    /// Finds the member with exactly this name; names are case-sensitive.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| *value)
    }

    /// Returns the decoded string of a member; `None` if it is absent or null.
    ///
    /// # Errors
    /// The member is something else, or its escapes form no Unicode text (a lone surrogate).
    pub(crate) fn string(&self, name: &str) -> Result<Option<String>, NotAString> {
        match self.get(name) {
            Some(value) if value.get() != "null" => decode_string(value).map(Some),
            _ => Ok(None),
        }
    }

    /// Counts the members with this name.
    pub(super) fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(other, _)| other == name).count()
    }
}

/// Returns the text of a raw JSON string.
pub(super) fn decode_string(value: &RawValue) -> Result<String, NotAString> {
    serde_json::from_str(value.get()).map_err(|_| NotAString)
}

/// The elements of an array, of which only the first ones are kept.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    /// At most [`Elements::MAX_KEPT`], in order.
    pub(super) kept: Vec<&'a RawValue>,
    /// How many there are in all.
    pub(super) count: usize,
}

impl<'a> Elements<'a> {
    /// As many as any array that is read this way may have (rule B-2.5): more are only counted.
    pub(super) const MAX_KEPT: usize = 100;

    /// Reads an array; the caller has seen that `text` begins one.
    pub(super) fn read(text: &'a str) -> Result<Elements<'a>, MembersError> {
        Ok(serde_json::from_str(text)?)
    }
}

/// Looks at brackets outside of strings only. What it says about text that is not JSON does not matter: such text
/// is refused with the same error.
fn is_deeper_than(text: &[u8], limit: usize) -> bool {
    let mut depth = 0usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Goes on to after the closing quote.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// A member's name, borrowed unless it had escapes (serde's own `Cow` is always owned).
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'de>, D::Error> {
        struct NameVisitor;

        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

impl<'de> Deserialize<'de> for Elements<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Elements<'de>, D::Error> {
        struct ElementsVisitor;

        impl<'de> Visitor<'de> for ElementsVisitor {
            type Value = Elements<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Elements<'de>, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < Elements::MAX_KEPT {
                    match sequence.next_element()? {
                        Some(element) => kept.push(element),
                        None => {
                            return Ok(Elements {
                                count: kept.len(),
                                kept,
                            });
                        }
                    }
                }
                let mut count = kept.len();
                while sequence.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Elements { kept, count })
            }
        }

        deserializer.deserialize_seq(ElementsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::{Map, Value};

    use super::{Elements, JsonRefusal, Kind, MAX_DEPTH, Members, MembersError, NotAString, check};

    fn check_depth(opening: &str, closing: &str, expected: impl Fn(usize) -> bool) {
        for depth in [1, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 100_000] {
            let text = opening.repeat(depth) + &closing.repeat(depth);
            assert_eq!(
                check(text.as_bytes()).is_ok(),
                expected(depth),
                "{opening} {depth} times"
            );
        }
    }

    #[test]
    fn nesting_is_limited_outside_of_strings() {
        check_depth("[", "]", |depth| depth <= MAX_DEPTH);
        check_depth("{\"a\":", "}", |depth| depth <= MAX_DEPTH);
        check_depth("[{\"\\\"\":", "}]", |depth| 2 * depth <= MAX_DEPTH);
        check_depth("\"\\\\\"[", "", |depth| depth <= MAX_DEPTH);
        check_depth("\"[\\\"{\"", "", |_| true);
        check_depth("[],{},", "", |_| true);
        check_depth("]", "}", |_| true);
    }

    #[test]
    fn what_is_not_utf8_is_refused_and_a_byte_order_mark_is_dropped() {
        assert_eq!(check(b"\xEF\xBB\xBF{}"), Ok("{}"));
        assert_eq!(check(b"\xEF\xBB\xBF\xEF\xBB\xBF{}"), Ok("\u{feff}{}"));
        for bytes in [
            &b"\xFF\xFE{\0}\0"[..],
            b"{\"a\":\"\xC3\x28\"}",
            b"\xEF\xBB",
            b"\"\xED\xA0\x80\"",
        ] {
            assert_eq!(
                check(bytes),
                Err(JsonRefusal::NotUtf8),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    /// `expected` is each member as `name=value`, joined by spaces.
    fn check_members(text: &str, expected: Result<&str, MembersError>) {
        let members = Members::read(text).map(|members| {
            let members: Vec<String> = members
                .0
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            members.join(" ")
        });
        assert_eq!(members, expected.map(str::to_owned), "{text}");
    }

    #[test]
    fn members_are_read_in_order_and_raw() {
        check_members("{}", Ok(""));
        check_members(r#" { "b" : 1.0 , "a" : [ 1 ] } "#, Ok("b=1.0 a=[ 1 ]"));
        check_members(
            r#"{"a":9007199254740993,"A":1e400,"ä":{"a":1,"a":2}}"#,
            Ok(r#"a=9007199254740993 A=1e400 ä={"a":1,"a":2}"#),
        );
    }

    #[test]
    fn a_name_stands_once_however_it_is_escaped() {
        let duplicate = |name: &str| Err(MembersError::DuplicateKey(name.to_owned()));
        check_members(r#"{"a":1,"b":2,"a":3}"#, duplicate("a"));
        check_members(r#"{"method":1,"\u006dethod":2}"#, duplicate("method"));
        check_members(r#"{"":1,"":2}"#, duplicate(""));
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_no_json() {
        for text in ["[]", "\"a\"", "1", "null", " true "] {
            check_members(text, Err(MembersError::NotAnObject));
        }
        for text in [
            "",
            "{",
            "{}}",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"\\ud800\":1}",
            "nul",
            "{} {}",
            "\u{feff}{}",
        ] {
            assert!(
                matches!(Members::read(text), Err(MembersError::Syntax { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn a_string_is_told_from_what_is_absent_and_what_is_none() {
        let members =
            Members::read(r#"{"a":"\u00e4","b":null,"c":1,"d":"\ud800","e":["a"],"f":{}}"#).unwrap();
        for (name, expected) in [("a", Some("ä")), ("b", None), ("z", None), ("A", None)] {
            assert_eq!(members.string(name), Ok(expected.map(str::to_owned)), "{name}");
        }
        for name in ["c", "d", "e", "f"] {
            assert_eq!(members.string(name), Err(NotAString), "{name}");
        }
    }

    #[test]
    fn of_a_long_array_only_the_first_elements_are_kept() {
        for count in [0, 1, 99, 100, 101, 5_000] {
            let text = format!("[{}]", vec!["1"; count].join(","));
            let elements = Elements::read(&text).unwrap();
            assert_eq!(
                (elements.count, elements.kept.len()),
                (count, count.min(Elements::MAX_KEPT))
            );
        }
        let broken = format!("[{}", "1,".repeat(200));
        assert!(matches!(
            Elements::read(&broken),
            Err(MembersError::Syntax { .. })
        ));
    }

    #[test]
    fn a_body_full_of_members_is_searched_for_duplicates() {
        let members: Vec<String> = (0..200_000).map(|number| format!("\"{number}\":0")).collect();
        let unique = format!("{{{}}}", members.join(","));
        assert!(Members::read(&unique).is_ok());
        let doubled = format!("{{{},\"7\":1}}", members.join(","));
        assert_eq!(
            Members::read(&doubled).err(),
            Some(MembersError::DuplicateKey("7".to_owned()))
        );
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Value::from),
                vec((any::<String>(), inner), 0..6).prop_map(Value::from_iter),
            ]
        })
    }

    fn depth_of(value: &Value) -> usize {
        match value {
            Value::Array(elements) => 1 + elements.iter().map(depth_of).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth_of).max().unwrap_or(0),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn depth_is_that_of_the_tree(value in json_value(), limit in 0usize..8) {
            let text = value.to_string();
            assert_eq!(super::is_deeper_than(text.as_bytes(), limit), depth_of(&value) > limit);
        }

        #[test]
        fn members_are_those_of_serde_json(members in vec((".{0,3}", any::<i64>()), 0..20)) {
            let written: Vec<String> =
                members.iter().map(|(name, value)| format!("{}:{value}", Value::from(name.as_str()))).collect();
            let text = format!("{{{}}}", written.join(","));
            let model: Map<String, Value> = serde_json::from_str(&text).unwrap();
            match Members::read(&text) {
                Ok(read) => {
                    assert_eq!(read.0.len(), model.len());
                    for (name, value) in &members {
                        assert_eq!(read.get(name).unwrap().get(), value.to_string());
                    }
                }
                Err(error) => {
                    assert!(matches!(error, MembersError::DuplicateKey(_)), "{error}");
                    assert!(model.len() < members.len());
                }
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            match Members::read(&text) {
                Ok(_) => assert!(is_json && Kind::of(&text) == Kind::Object),
                Err(MembersError::Syntax { .. }) => assert!(!is_json),
                Err(MembersError::NotAnObject | MembersError::DuplicateKey(_)) => assert!(is_json),
            }
        }
    }
}
